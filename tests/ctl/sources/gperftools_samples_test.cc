// Which mapping of a gperftools profile an address belongs to, also in a profile that no process
// could have.

#include "ctl/sources/gperftools_samples.h"

#include <cstddef>
#include <cstdint>
#include <map>
#include <span>
#include <string>
#include <vector>

#include <gtest/gtest.h>

namespace profd {
namespace {

std::vector<NamedAddress> no_names(const ProfileMapping& /*mapping*/,
                                   std::span<const std::uint64_t> /*addresses*/) {
  return {};
}

// The samples of each file.
std::map<std::string, std::int64_t> sums_of(const Profile& profile) {
  Samples samples;
  add_gperftools(profile, 0, {}, no_names, samples);
  std::map<std::string, std::int64_t> sums;
  std::vector<std::uint32_t> frames;
  for (const Samples::Row& row : samples.rows()) {
    samples.read_stack(row, frames);
    const SampledFunction& leaf = samples.functions()[samples.frames()[frames.front()].function];
    sums[std::string(samples.text(leaf.object))] += row.value.samples;
  }
  return sums;
}

TEST(GperftoolsSamplesTest, TheFirstLineThatContainsAnAddressCounts) {
  Profile profile;
  profile.mappings = {{.start = 0x3000, .end = 0x5000, .path = "middle"},
                      {.start = 0x1000, .end = 0x9000, .path = "around"},
                      {.start = 0x4000, .end = 0x6000, .path = "later"},
                      {.start = 0x7000, .end = 0x6000, .path = "reversed"},
                      {.start = 0x9000, .end = 0xa000, .path = "behind"}};
  const std::map<std::uint64_t, std::string> expected = {
      {0x0fff, ""},       {0x1000, "around"}, {0x2fff, "around"}, {0x3000, "middle"},
      {0x4fff, "middle"}, {0x5000, "around"}, {0x6800, "around"}, {0x8fff, "around"},
      {0x9000, "behind"}, {0x9fff, "behind"}, {0xa000, ""}};
  std::map<std::string, std::int64_t> sums;
  std::int64_t count = 1;
  for (const auto& [address, path] : expected) {
    profile.add_record({&address, 1}, static_cast<std::uint64_t>(count));
    sums[path] += count;
    count *= 2;
  }
  EXPECT_EQ(sums_of(profile), sums);
}

// A search of all lines for each address would take minutes.
TEST(GperftoolsSamplesTest, ManyLinesAndAddressesAreNoBurden) {
  constexpr std::uint64_t kMany = 200'000;
  Profile profile;
  for (std::uint64_t i = 0; i < kMany; ++i) {
    const std::uint64_t start = 0x10000 + 16 * i;
    profile.mappings.push_back({.start = start, .end = start + 8, .path = "a"});
    const std::uint64_t address = start + (i % 2 == 0 ? 4 : 12);
    profile.add_record({&address, 1}, 1);
  }
  EXPECT_EQ(sums_of(profile),
            (std::map<std::string, std::int64_t>{{"", kMany / 2}, {"a", kMany / 2}}));
}

}  // namespace
}  // namespace profd
