#include "daemon/xray/named_calls.h"

#include <array>
#include <chrono>
#include <cstdint>
#include <map>
#include <string>
#include <vector>

#include "collectors/host/host_checks.h"
#include "daemon/names/symbol_budgets.h"
#include "daemon/profiles/file_locations.h"
#include "daemon/profiles/process_labels.h"
#include "formats/xray/profile.h"

namespace profd {
namespace {

constexpr std::int64_t kNanosecondsPerMicrosecond = 1000;

// As Profile::add_stack() has it, the addresses of callers are one higher.
std::uint64_t function_address(std::span<const std::uint64_t> pcs, std::size_t index) {
  return index == 0 ? pcs[index] : pcs[index] - 1;
}

const ProfileMapping* mapping_at(const Profile& profile, std::uint64_t address) {
  for (const ProfileMapping& mapping : profile.mappings) {
    if (address >= mapping.start && address < mapping.end) return &mapping;
  }
  return nullptr;
}

class CallNamer {
 public:
  CallNamer(const XrayMeasurement& measurement, CodeNaming& naming)
      : profile_({{"calls", "count"}, {"wall", "nanoseconds"}}),
        hit_{.file = measurement.target.program, .samples_by_offset = {}} {
    profile_.default_sample_type = "wall";
    profile_.period_type = {"wall", "nanoseconds"};
    profile_.period = kNanosecondsPerMicrosecond;
    profile_.time_ns = std::chrono::nanoseconds(measurement.started.time_since_epoch()).count();
    profile_.duration_ns = measurement.lasted.count();
    profile_.comments.insert("profd " PROFD_VERSION " on " + host_name());
    (void)add_named_mapping(profile_, {}, "[calls of " + measurement.target.comm + "]");
    const XrayTarget& target = measurement.target;
    labels_ = add_labels(profile_, labels_of(static_cast<std::uint32_t>(target.pid), target.comm,
                                             {.unit = target.unit, .container = target.container}));
    naming_ = &naming;
    if (hit_.file) hit_.users = {hit_.file->owner};  // a target's user may read its program
  }

  PprofProfile build(const xray::LiveResult& live) {
    collect_hits(live.exclusive);
    collect_hits(live.calls);
    if (hit_.file) {
      SymbolBudgets budgets;
      program_ = FileLocations(naming_->files().name(hit_, budgets), hit_.file->path, profile_);
    }
    add(live.exclusive, [](std::int64_t time_us) {
      return std::array{std::int64_t{0}, time_us * kNanosecondsPerMicrosecond};
    });
    add(live.calls, [](std::int64_t calls) { return std::array{calls, std::int64_t{0}}; });
    return std::move(profile_);
  }

 private:
  void collect_hits(const Profile& calls) {
    for (const Profile::Record& record : calls.records()) {
      const auto pcs = calls.pcs(record);
      for (std::size_t i = 0; i < pcs.size(); ++i) {
        const std::uint64_t address = function_address(pcs, i);
        const ProfileMapping* mapping = mapping_at(calls, address);
        if (mapping == nullptr || mapping->path != xray::kProgramPath) continue;
        hit_.samples_by_offset[address - mapping->start + mapping->file_offset] += record.count;
      }
    }
  }

  template <class ValuesOf>
  void add(const Profile& calls, const ValuesOf& values_of) {
    std::vector<std::uint32_t> stack;
    for (const Profile::Record& record : calls.records()) {
      stack.clear();
      const auto pcs = calls.pcs(record);
      for (std::size_t i = 0; i < pcs.size(); ++i) {
        stack.push_back(location_of(calls, function_address(pcs, i)));
      }
      profile_.add_sample({.labels = labels_, .stack = profile_.add_stack(stack)},
                          values_of(static_cast<std::int64_t>(record.count)));
    }
  }

  std::uint32_t location_of(const Profile& calls, std::uint64_t address) {
    const ProfileMapping* const mapping = mapping_at(calls, address);
    if (mapping != nullptr && mapping->path == xray::kProgramPath && hit_.file) {
      return program_.at(address - mapping->start + mapping->file_offset, profile_).index;
    }
    return unknown_location(xray::unknown_name_at(address));
  }

  // A function that no object has, by its id.
  std::uint32_t unknown_location(const std::string& name) {
    const PprofFunction function{.name = profile_.add_text(name)};
    const PprofLine line{.function = profile_.add_function(function)};
    const std::uint32_t mapping = add_named_mapping(profile_, {}, "[unknown functions]");
    return profile_.add_location({.mapping = mapping}, {&line, 1});
  }

  PprofProfile profile_;
  HitFile hit_;
  CodeNaming* naming_ = nullptr;
  FileLocations program_;
  std::uint32_t labels_ = 0;
};

}  // namespace

PprofProfile make_named_calls(const XrayMeasurement& measurement, const xray::LiveResult& live,
                              CodeNaming& naming) {
  return CallNamer(measurement, naming).build(live);
}

}  // namespace profd
