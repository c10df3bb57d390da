#include "formats/profile/merge.h"

#include <map>
#include <string>
#include <utility>
#include <vector>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "formats/profile/gperftools_reader.h"
#include "formats/profile/gperftools_writer.h"

namespace profd {
namespace {

using ::testing::ElementsAre;
using ::testing::UnorderedElementsAre;
using Pcs = std::vector<std::uint64_t>;

constexpr std::uint64_t kSeed = 0x5eed;

struct Counted {
  Pcs pcs;
  std::uint64_t count;
};

Profile profile(const std::vector<ProfileMapping>& mappings, const std::vector<Counted>& stacks,
                std::uint64_t period = 10'000) {
  Profile made;
  made.period = period;
  made.mappings = mappings;
  for (const Counted& stack : stacks) made.add_record(stack.pcs, stack.count);
  return made;
}

// The object and the offset in it that a reader finds for each frame: merging must not change them.
using Place = std::pair<std::string, std::uint64_t>;
std::map<std::vector<Place>, std::uint64_t> places(const Profile& profile) {
  std::map<std::vector<Place>, std::uint64_t> counts;
  for (const Profile::Record& record : profile.records()) {
    std::vector<Place> stack;
    for (const std::uint64_t& pc : profile.pcs(record)) {
      const std::uint64_t address = &pc == profile.pcs(record).data() ? pc : pc - 1;
      Place place{"", 0};
      for (const ProfileMapping& mapping : profile.mappings) {
        if (address < mapping.start || address >= mapping.end) continue;
        EXPECT_EQ(place.first, "") << "two mappings have " << std::hex << address;
        place = {mapping.path, address - mapping.start + mapping.file_offset};
      }
      stack.push_back(place);
    }
    counts[stack] += record.count;
  }
  return counts;
}

// The sum of the parts, each read with its own mappings.
std::map<std::vector<Place>, std::uint64_t> places(const std::vector<Profile>& parts) {
  std::map<std::vector<Place>, std::uint64_t> sum;
  for (const Profile& part : parts) {
    for (const auto& [stack, count] : places(part)) sum[stack] += count;
  }
  return sum;
}

Profile merged(const std::vector<Profile>& parts) {
  ProfileMerge merge(kSeed);
  for (const Profile& part : parts) EXPECT_TRUE(merge.add(part));
  return merge.profile();
}

const ProfileMapping kProgram{0x400000, 0x410000, 0x1000, "/state/objects/a.so"};
const ProfileMapping kLibrary{0x7f0000000000, 0x7f0000010000, 0, "/state/objects/libc.so"};

TEST(ProfileMerge, EqualStacksAddUp) {
  const Profile whole = merged({profile({kProgram}, {{{0x400010, 0x400100}, 3}, {{0x400010}, 1}}),
                                profile({kProgram}, {{{0x400010, 0x400100}, 4}})});
  EXPECT_EQ(whole, profile({kProgram}, {{{0x400010, 0x400100}, 7}, {{0x400010}, 1}}));
}

TEST(ProfileMerge, MappingsUniteAndTheExecutableStaysFirst) {
  const ProfileMapping low{0x10000, 0x20000, 0, "/state/objects/low.so"};
  const Profile whole = merged({profile({kLibrary}, {{{0x7f0000000010}, 1}}),
                                profile({kProgram, low}, {{{0x400010, 0x10010}, 1}})});
  EXPECT_THAT(whole.mappings, ElementsAre(kProgram, low, kLibrary));
}

TEST(ProfileMerge, MoreOfTheSameObjectIsOneMapping) {
  const auto part = [](std::uint64_t start, std::uint64_t end) {
    return ProfileMapping{start, end, start - 0x400000, "/state/objects/a.so"};
  };
  const std::pair<std::vector<ProfileMapping>, std::vector<ProfileMapping>> table[] = {
      {{part(0x401000, 0x402000), part(0x401000, 0x403000)}, {part(0x401000, 0x403000)}},
      {{part(0x401000, 0x403000), part(0x401000, 0x402000)}, {part(0x401000, 0x403000)}},
      {{part(0x402000, 0x403000), part(0x401000, 0x404000)}, {part(0x401000, 0x404000)}},
      {{part(0x402000, 0x404000), part(0x401000, 0x403000)}, {part(0x401000, 0x404000)}},
      {{part(0x401000, 0x402000), part(0x404000, 0x405000), part(0x401800, 0x404800)},
       {part(0x401000, 0x405000)}},
      {{part(0x401000, 0x402000), part(0x403000, 0x404000)},
       {part(0x401000, 0x402000), part(0x403000, 0x404000)}},
  };
  for (const auto& [parts, expected] : table) {
    MappingUnion mappings;
    for (const ProfileMapping& mapping : parts) {
      const auto placed = mappings.place(std::span(&mapping, 1));
      ASSERT_TRUE(placed);
      EXPECT_EQ(placed->front().shift, 0u);
    }
    EXPECT_EQ(mappings.mappings(), expected);
  }
}

// Every kind of contradiction: each frame must keep its file and its offset.
TEST(ProfileMerge, FramesStayInTheirFile) {
  const ProfileMapping other{0x400000, 0x410000, 0x1000, "/state/objects/b.so"};
  const ProfileMapping shifted{0x400000, 0x410000, 0x2000, "/state/objects/a.so"};
  const ProfileMapping across{0x408000, 0x418000, 0, "/state/objects/c.so"};
  const ProfileMapping around{0x300000, 0x500000, 0, "/state/objects/d.so"};
  const ProfileMapping anonymous{0x3ff000, 0x420000, 0, "[anon]"};
  const ProfileMapping moved{std::uint64_t{3} << 52, (std::uint64_t{3} << 52) + 0x10000, 0,
                             "/state/objects/m.so"};
  const std::vector<Counted> stacks = {{{0x400010, 0x400100}, 1}, {{0x408010, 0x409000}, 2}};
  const std::vector<Counted> moved_stacks = {{{moved.start + 8}, 3}};
  const std::vector<Profile> parts = {
      profile({kProgram}, stacks),  profile({other}, stacks),       profile({shifted}, stacks),
      profile({across}, stacks),    profile({around}, stacks),      profile({}, stacks),
      profile({anonymous}, stacks), profile({moved}, moved_stacks), profile({other}, stacks),
      profile({kProgram}, stacks),
  };
  std::vector<std::size_t> order(parts.size());
  for (std::size_t i = 0; i < order.size(); ++i) order[i] = i;
  for (int round = 0; round < 200; ++round) {
    std::vector<Profile> ordered;
    for (const std::size_t index : order) ordered.push_back(parts[index]);
    const Profile whole = merged(ordered);
    ASSERT_EQ(places(whole), places(ordered)) << "round " << round;
    const auto read = decode_gperftools(encode_gperftools(whole));
    ASSERT_TRUE(read);
    ASSERT_EQ(*read, whole);
    std::next_permutation(order.begin(), order.end());
    std::rotate(order.begin(), order.begin() + round % 3, order.end());
  }
}

TEST(ProfileMerge, AContradictionThatComesBackIsMovedToTheSamePlace) {
  const ProfileMapping other{0x400000, 0x410000, 0x1000, "/state/objects/b.so"};
  const Profile first = profile({kProgram}, {{{0x400010}, 1}});
  const Profile second = profile({other}, {{{0x400010}, 1}});
  const Profile whole = merged({first, second, first, second, second});
  EXPECT_EQ(whole.mappings.size(), 2u);
  EXPECT_EQ(whole.records().size(), 2u);
  EXPECT_EQ(whole.samples(), 5u);
}

TEST(ProfileMerge, ACallAtTheEndOfAMappingBelongsToIt) {
  const ProfileMapping next{0x410000, 0x420000, 0, "/state/objects/next.so"};
  const ProfileMapping other{0x400000, 0x410000, 0x9000, "/state/objects/b.so"};
  const std::vector<Counted> stacks = {{{0x400010, 0x410000}, 1}};
  const std::vector<Profile> parts = {profile({other}, stacks), profile({kProgram, next}, stacks)};
  EXPECT_EQ(places(merged(parts)), places(parts));
}

TEST(ProfileMerge, AnotherPeriodOrKernelChangesNothing) {
  const std::uint64_t kernel = fold_kernel_address(0xffffffff81000000);
  const ProfileMapping one{kernel, kernel + 0x1000, 64, "/state/objects/kernel-1.so"};
  const ProfileMapping two{kernel + 0x800000, kernel + 0x801000, 64, "/state/objects/kernel-2.so"};
  ProfileMerge merge(kSeed);
  ASSERT_TRUE(merge.add(profile({one}, {{{kernel + 8}, 1}})));
  const Profile before = merge.profile();
  EXPECT_FALSE(merge.add(profile({one}, {{{kernel + 8}, 1}}, 20'000)));
  EXPECT_FALSE(merge.add(profile({two}, {{{kernel + 0x800008}, 1}})));
  EXPECT_FALSE(merge.add(profile({kProgram, kProgram}, {{{0x400010}, 1}})));
  EXPECT_FALSE(merge.add(profile({{0, std::uint64_t{1} << 60, 0, "/huge"}}, {{{0x400010}, 1}})));
  EXPECT_EQ(merge.profile(), before);
}

TEST(ProfileMerge, TheKernelsMappingGrowsAndNeverMoves) {
  const std::uint64_t kernel = fold_kernel_address(0xffffffff81000000);
  const auto image = [](std::uint64_t start, std::uint64_t end) {
    return ProfileMapping{start, end, 64, "/state/objects/kernel-1.so"};
  };
  const Profile whole =
      merged({profile({}, {{{kernel + 0x5000}, 1}}),
              profile({image(kernel + 0x2000, kernel + 0x3000)}, {{{kernel + 0x2010}, 1}}),
              profile({image(kernel, kernel + 0x9000)}, {{{kernel + 0x10}, 1}})});
  EXPECT_THAT(whole.mappings, ElementsAre(image(kernel, kernel + 0x9000)));
  EXPECT_EQ(whole.pcs(whole.records()[0])[0], kernel + 0x5000);
}

TEST(ProfileMerge, AnEmptyMergeIsAnEmptyProfile) {
  EXPECT_EQ(ProfileMerge(kSeed).profile(), Profile());
  EXPECT_EQ(merged({profile({}, {})}).samples(), 0u);
}

}  // namespace
}  // namespace profd
