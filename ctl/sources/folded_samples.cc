#include "ctl/sources/folded_samples.h"

#include <charconv>
#include <string>
#include <vector>

#include <boost/unordered/unordered_flat_map.hpp>

#include "formats/base/errors.h"

namespace profd {
namespace {

class FoldedImport {
 public:
  explicit FoldedImport(Samples& to) : to_(to), labels_(to.add_labels({})) {}

  // False: the line has no count.
  bool add(std::string_view line) {
    const std::size_t blank = line.rfind(' ');
    if (blank == std::string_view::npos) return false;
    std::int64_t count = 0;
    const char* const end = line.data() + line.size();
    const auto [at, error] = std::from_chars(line.data() + blank + 1, end, count);
    // Some writers have counts with a fraction.
    if (error != std::errc() || count < 0 || (at != end && *at != '.')) return false;
    stack_.clear();
    std::string_view rest = line.substr(0, blank);
    while (!rest.empty()) {
      const std::size_t semicolon = rest.rfind(';');
      stack_.push_back(
          location_of(semicolon == std::string_view::npos ? rest : rest.substr(semicolon + 1)));
      rest = semicolon == std::string_view::npos ? std::string_view() : rest.substr(0, semicolon);
    }
    to_.add(stack_, labels_, {.samples = count});
    return true;
  }

 private:
  std::uint32_t location_of(std::string_view name) {
    FrameKind kind = FrameKind::kNative;
    if (name.ends_with("_[k]")) kind = FrameKind::kKernel;
    if (name.ends_with("_[j]")) kind = FrameKind::kRuntime;
    if (name.ends_with("_[i]")) kind = FrameKind::kInterpreted;
    if (kind != FrameKind::kNative) name.remove_suffix(4);
    const SampledFunction function{.name = to_.add_text(name), .kind = kind};
    const std::uint32_t number = to_.add_function(function);
    const auto [known, added] = locations_.try_emplace(number);
    if (added) {
      const SampledFrame frame{.function = number};
      known->second = to_.add_location({&frame, 1});
    }
    return known->second;
  }

  Samples& to_;
  std::uint32_t labels_;
  std::vector<std::uint32_t> stack_;
  boost::unordered_flat_map<std::uint32_t, std::uint32_t> locations_;  // by function
};

}  // namespace

Result<Samples> samples_of_folded(std::string_view text) {
  Samples samples;
  samples.event = "samples";
  FoldedImport import(samples);
  for (std::size_t number = 1; !text.empty(); ++number) {
    const std::size_t end = text.find('\n');
    std::string_view line = text.substr(0, end);
    text = end == std::string_view::npos ? std::string_view() : text.substr(end + 1);
    if (line.ends_with('\r')) line.remove_suffix(1);
    if (line.empty() || line.starts_with('#')) continue;
    if (!import.add(line)) {
      return fail(ErrorCode::kMalformed,
                  "line " + std::to_string(number) + " does not end in a count",
                  "a line of folded stacks is \"main;work;step 12\"");
    }
  }
  return samples;
}

}  // namespace profd
