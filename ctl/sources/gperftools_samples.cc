#include "ctl/sources/gperftools_samples.h"

#include <algorithm>
#include <limits>
#include <map>
#include <set>
#include <utility>

#include <boost/unordered/unordered_flat_map.hpp>

#include "ctl/sources/kernel_object.h"
#include "ctl/sources/pprof_samples.h"
#include "ctl/views/group_key.h"

namespace profd {
namespace {

constexpr std::size_t kNoMappingOfAddress = std::numeric_limits<std::size_t>::max();

class GperftoolsImport {
 public:
  GperftoolsImport(const Profile& profile, Samples& to) : profile_(profile), to_(to) {
    for (const Profile::Record& record : profile.records()) {
      const auto pcs = profile.pcs(record);
      for (std::size_t i = 0; i < pcs.size(); ++i) {
        locations_.try_emplace(address_of(pcs, i), std::uint32_t{0});
      }
    }
  }

  void name(const NameAddresses& name_addresses) {
    for (const auto& [mapping, addresses] : addresses_by_mapping()) {
      if (mapping == kNoMappingOfAddress) {
        add_unmapped(addresses);
        continue;
      }
      const ProfileMapping& of = profile_.mappings[mapping];
      const std::string object(kernel_object_of(of.path));
      const std::vector<NamedAddress> names = name_addresses(of, addresses);
      if (names.size() == addresses.size()) {
        add_named(object, addresses, names);
      } else {
        add_unnamed(object, addresses);
      }
    }
  }

  void add_records(std::int64_t period_ns, std::uint32_t labels) {
    std::vector<std::uint32_t> stack;
    for (const Profile::Record& record : profile_.records()) {
      const auto pcs = profile_.pcs(record);
      stack.clear();
      for (std::size_t i = 0; i < pcs.size(); ++i) {
        stack.push_back(locations_.at(address_of(pcs, i)));
      }
      const auto count = static_cast<std::int64_t>(
          std::min<std::uint64_t>(record.count, std::numeric_limits<std::int64_t>::max()));
      SampleValue value{.samples = count};
      if (__builtin_mul_overflow(count, period_ns, &value.cpu_ns)) {
        value.cpu_ns = std::numeric_limits<std::int64_t>::max();
      }
      to_.add(stack, labels, value);
    }
  }

 private:
  // Callers are return addresses: the call is before them (formats/profile/gperftools_format.h).
  static std::uint64_t address_of(std::span<const std::uint64_t> pcs, std::size_t at) {
    return at == 0 || pcs[at] == 0 ? pcs[at] : pcs[at] - 1;
  }

  // In their order. The first line that contains an address counts, as in Go's pprof.
  [[nodiscard]] std::map<std::size_t, std::vector<std::uint64_t>> addresses_by_mapping() const {
    std::vector<std::uint64_t> addresses;
    addresses.reserve(locations_.size());
    for (const auto& [address, location] : locations_) addresses.push_back(address);
    std::ranges::sort(addresses);
    std::vector<std::size_t> by_start;
    for (std::size_t i = 0; i < profile_.mappings.size(); ++i) {
      if (profile_.mappings[i].start < profile_.mappings[i].end) by_start.push_back(i);
    }
    std::vector<std::size_t> by_end = by_start;
    const auto start_of = [this](std::size_t i) { return profile_.mappings[i].start; };
    const auto end_of = [this](std::size_t i) { return profile_.mappings[i].end; };
    std::ranges::sort(by_start, {}, start_of);
    std::ranges::sort(by_end, {}, end_of);
    std::map<std::size_t, std::vector<std::uint64_t>> by_mapping;
    std::set<std::size_t> around;  // the mappings that contain the address
    auto started = by_start.begin();
    auto ended = by_end.begin();
    for (const std::uint64_t address : addresses) {
      for (; started != by_start.end() && start_of(*started) <= address; ++started) {
        around.insert(*started);
      }
      for (; ended != by_end.end() && end_of(*ended) <= address; ++ended) around.erase(*ended);
      by_mapping[around.empty() ? kNoMappingOfAddress : *around.begin()].push_back(address);
    }
    return by_mapping;
  }

  void add_named(const std::string& path, std::span<const std::uint64_t> addresses,
                 const std::vector<NamedAddress>& names) {
    for (std::size_t i = 0; i < addresses.size(); ++i) {
      add_location(addresses[i], path, names[i]);
    }
  }

  void add_unnamed(const std::string& path, std::span<const std::uint64_t> addresses) {
    for (const std::uint64_t address : addresses) add_location(address, path, {});
  }

  // The image of the kernel ends with the last function that has a name.
  void add_unmapped(std::span<const std::uint64_t> addresses) {
    for (const std::uint64_t address : addresses) {
      const bool is_kernel = unfold_kernel_address(address) != address;
      add_location(address, is_kernel ? std::string(kKernelObject) : std::string(), {});
    }
  }

  void add_location(std::uint64_t address, const std::string& path, const NamedAddress& named) {
    std::string name = named.name;
    // In an image of the kernel, code without a name is a symbol "[unknown]".
    if (path == kKernelObject && name.starts_with('[') && name != kHiddenKernelObject) name.clear();
    const bool is_unnamed = name.empty();
    if (is_unnamed) name = path.empty() ? "[unknown]" : std::string(base_name(path));
    if (is_unnamed && !name.starts_with('[')) name = "[" + name + "]";
    const bool is_hidden = path == kKernelObject && name == kHiddenKernelObject;
    const SampledFunction function{.name = to_.add_text(name),
                                   .file = to_.add_text(named.file),
                                   .object = to_.add_text(is_hidden ? kHiddenKernelObject : path),
                                   .kind = kind_of_object(path)};
    const SampledFrame frame{.function = to_.add_function(function), .line = named.line};
    locations_[address] = to_.add_location({&frame, 1});
  }

  const Profile& profile_;
  Samples& to_;
  boost::unordered_flat_map<std::uint64_t, std::uint32_t> locations_;  // by address
};

}  // namespace

void add_gperftools(const Profile& profile, std::int64_t period_ns, const ProfileOwner& owner,
                    const NameAddresses& name_addresses, Samples& to) {
  GperftoolsImport import(profile, to);
  import.name(name_addresses);
  import.add_records(period_ns, to.add_labels({.pid = owner.pid,
                                               .comm = to.add_text(owner.comm),
                                               .unit = to.add_text(owner.unit),
                                               .container = to.add_text(owner.container),
                                               .runtime = to.add_text(owner.runtime)}));
}

}  // namespace profd
