#include "daemon/history/hour_size.h"

#include <algorithm>
#include <array>
#include <limits>
#include <span>
#include <string_view>
#include <unordered_set>
#include <utility>
#include <vector>

#include "daemon/history/profile_tables.h"

namespace profd {
namespace {

constexpr std::string_view kFramesLeftOut = "[frames left out]";
constexpr std::uint64_t kMinHourBytes = std::uint64_t{256} << 10;

// A stack with less than this part of the time is rare.
constexpr std::int64_t kRarePart = 5000;

// How many of its outermost frames a rare stack keeps in each step. In the first it keeps all, and
// only the mangled names are left out.
constexpr std::size_t kAllFrames = std::numeric_limits<std::uint32_t>::max();
constexpr std::array<std::size_t, 8> kSteps = {kAllFrames, 48, 32, 24, 16, 12, 8, 4};

// Of the whole hour, and of what has lost detail. The last one is the last step.
constexpr int kMaxTrials = 4;

// About what an entry takes in a packed file.
constexpr double kTextPart = 0.25;
constexpr double kFrameSize = 1;
constexpr double kSampleSize = 4;
constexpr double kLocationSize = 6;

// Of the CPU, or of blocks.
std::int64_t time_of(const PprofProfile& profile) {
  std::int64_t sum = 0;
  for (std::size_t i = 0; i < profile.samples().size(); ++i) {
    sum = sum_within_limits(sum, profile.values(i).back());
  }
  return sum;
}

// Whether each stack of a profile is shortened, and how.
class RareStacks {
 public:
  RareStacks(const PprofProfile& profile, std::size_t outermost)
      : profile_(profile), outermost_(outermost), rare_below_(time_of(profile) / kRarePart) {}

  // With the innermost location and one for those left out, a stack must still become shorter.
  [[nodiscard]] bool is_cut(std::size_t place) const {
    return stack(place).size() > outermost_ + 2 && profile_.values(place).back() < rare_below_;
  }

  [[nodiscard]] std::span<const std::uint32_t> stack(std::size_t place) const {
    return profile_.stack(profile_.samples()[place].stack);
  }

  [[nodiscard]] std::span<const std::uint32_t> outermost(std::size_t place) const {
    return is_cut(place) ? stack(place).last(outermost_) : stack(place);
  }

 private:
  const PprofProfile& profile_;
  std::size_t outermost_;
  std::int64_t rare_below_;
};

double size_of_names(const PprofProfile& profile, bool with_system_names) {
  double size = kLocationSize * static_cast<double>(profile.locations().size());
  for (const PprofFunction& function : profile.functions()) {
    size += kTextPart * static_cast<double>(profile.text(function.name).size());
    if (!with_system_names || function.system_name == function.name) continue;
    size += kTextPart * static_cast<double>(profile.text(function.system_name).size());
  }
  return size;
}

// Equal keys: the samples become one, but for a collision, which hardly changes a size.
std::uint64_t key_of(const PprofSample& sample, std::span<const std::uint32_t> frames,
                     std::uint32_t leaf) {
  constexpr std::uint64_t kFactor = 0x9e3779b97f4a7c15;
  std::uint64_t key = (std::uint64_t{sample.labels} << 32U) + leaf;
  for (const std::uint32_t frame : frames) key = ((key ^ (key >> 29U)) + frame + 1) * kFactor;
  return key;
}

double size_of_stacks(const PprofProfile& profile, std::size_t outermost) {
  const RareStacks rare(profile, outermost);
  std::unordered_set<std::uint64_t> keys;
  double size = 0;
  for (std::size_t i = 0; i < profile.samples().size(); ++i) {
    const auto frames = rare.outermost(i);
    const bool is_cut = rare.is_cut(i);
    const std::uint32_t leaf = is_cut ? rare.stack(i).front() : 0;
    if (is_cut && !keys.insert(key_of(profile.samples()[i], frames, leaf)).second) continue;
    size += kSampleSize + kFrameSize * static_cast<double>(frames.size());
  }
  return size;
}

double size_after(const PprofProfile& profile, std::size_t step) {
  return size_of_names(profile, false) + size_of_stacks(profile, kSteps[step]);
}

void leave_out(PprofProfile& profile, std::size_t step) {
  TablesOfProfile tables(profile);
  tables.drop_system_names();
  const std::uint32_t substitute = tables.add_substitute(kFramesLeftOut);
  const RareStacks rare(profile, kSteps[step]);
  std::vector<std::uint32_t> frames;
  for (std::size_t i = 0; i < profile.samples().size(); ++i) {
    frames.clear();
    if (rare.is_cut(i)) frames = {rare.stack(i).front(), substitute};
    const auto outermost = rare.outermost(i);
    frames.insert(frames.end(), outermost.begin(), outermost.end());
    tables.add(i, frames);
  }
  (void)tables.replace(profile);
}

// The first step from `step` on after which the file is expected to fit.
std::size_t step_to_fit(const PprofProfile& profile, std::size_t step, double max_size) {
  while (step + 1 < kSteps.size() && size_after(profile, step) > max_size) ++step;
  return step;
}

}  // namespace

std::uint64_t max_bytes_of_hour(std::uint64_t max_bytes, std::chrono::seconds hours_max_age) {
  const auto hours = std::chrono::duration_cast<std::chrono::hours>(hours_max_age).count();
  const auto parts = static_cast<std::uint64_t>(std::max<std::int64_t>(hours, 1));
  return std::max(kMinHourBytes, max_bytes / 2 / parts);
}

std::string encode_within(std::uint64_t max_bytes, PprofProfile& profile,
                          const EncodeHour& encode) {
  std::string bytes = encode(profile, 1);
  if (bytes.size() <= max_bytes) return bytes;
  const double whole = size_of_names(profile, true) + size_of_stacks(profile, kAllFrames);
  double size = whole;
  std::size_t next = 0;
  for (int trial = 1; bytes.size() > max_bytes && next < kSteps.size(); ++trial) {
    const double factor = static_cast<double>(max_bytes) / static_cast<double>(bytes.size());
    const std::size_t step =
        trial == kMaxTrials ? kSteps.size() - 1 : step_to_fit(profile, next, size * factor);
    leave_out(profile, step);
    size = size_after(profile, step);
    bytes = encode(profile, std::min(size / whole, 1.0));
    next = step + 1;
  }
  return bytes;
}

}  // namespace profd
