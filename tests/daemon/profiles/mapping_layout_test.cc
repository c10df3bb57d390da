#include "daemon/profiles/mapping_layout.h"

#include <limits>
#include <string>

#include <gmock/gmock.h>

#include "daemon/profiles/object_images.h"
#include "tests/daemon/local_parser.h"
#include "tests/daemon/profiles/chain_program.h"
#include "tests/daemon/samples/synthetic_sample.h"

namespace profd {
namespace {

using test::SyntheticSample;
using testing::ElementsAre;

constexpr ProcessKey kMappedProcess{.tgid = 7, .exec_id = 1, .start_ns = 100};
constexpr std::uint64_t kNoLimit = std::numeric_limits<std::uint64_t>::max();

// A process with mappings of files that were never opened, since only their addresses matter.
class MappingLayoutTest : public testing::Test {
 protected:
  // Met at `time_ns` = `id`. Inode 0 is anonymous memory.
  void map(std::uint64_t id, std::uint64_t inode, std::uint64_t start, std::uint64_t end,
           std::uint64_t offset) {
    ProcessMapping mapping{.start = start,
                           .end = end,
                           .file_offset = offset,
                           .time_ns = id,
                           .kind = inode == 0 ? PROFD_MAPPING_ANONYMOUS : PROFD_MAPPING_FILE,
                           .file_key = {.inode = inode},
                           .file = nullptr};
    if (inode != 0) {
      mapping.file =
          std::make_shared<const MappedFile>(MappedFile{.key = {.inode = inode},
                                                        .path = "/lib/" + std::to_string(inode),
                                                        .deleted = false,
                                                        .fd = {},
                                                        .error = "not opened"});
    }
    test::image_of(process_).mappings.emplace(id, std::move(mapping));
  }

  void sample(std::uint64_t address, std::uint64_t id) {
    SyntheticSample one = SyntheticSample(kMappedProcess).leaf(address, id);
    const SampleView view = one.view();
    process_.samples.stacks.add(view, StackTable::hash_of(view), kNoLimit);
  }

  // "start-end offset path", as a reader would show it.
  std::vector<std::string> lines() {
    test::LocalParser parser;
    ObjectImages objects(parser, "test");
    std::vector<std::string> text;
    for (const ProfileMapping& line : MappingLayout(process_, objects).lines()) {
      char range[80];
      std::snprintf(range, sizeof range, "%lx-%lx %lx ", line.start, line.end, line.file_offset);
      text.push_back(range + line.path);
    }
    return text;
  }

  ProcessSnapshot process_{.key = kMappedProcess, .samples = {}};
};

TEST_F(MappingLayoutTest, ShowsOnlyMappingsWithSamples) {
  map(1, 11, 0x1000, 0x3000, 0);
  map(2, 12, 0x5000, 0x6000, 0x1000);
  sample(0x5010, 2);
  EXPECT_THAT(lines(), ElementsAre("5000-6000 1000 [12]"));
}

TEST_F(MappingLayoutTest, PutsTheExecutableFirst) {
  map(1, 11, 0x1000, 0x3000, 0);
  map(2, 12, 0x5000, 0x6000, 0x1000);
  test::image_of(process_).executable = {.inode = 12};
  sample(0x1000, 1);
  sample(0x5010, 2);
  EXPECT_THAT(lines(), ElementsAre("5000-6000 1000 [12]", "1000-3000 0 [11]"));
}

TEST_F(MappingLayoutTest, MakesOneLineOfARangeThatWasSeenTwice) {
  map(1, 11, 0x1000, 0x3000, 0);
  map(2, 11, 0x1000, 0x3000, 0);
  sample(0x1000, 1);
  sample(0x1008, 2);
  EXPECT_THAT(lines(), ElementsAre("1000-3000 0 [11]"));
}

TEST_F(MappingLayoutTest, JoinsPartsOfOneObjectThatFitTogether) {
  map(1, 11, 0x1000, 0x3000, 0x4000);
  map(2, 11, 0x3000, 0x5000, 0x6000);
  map(3, 11, 0x4000, 0x8000, 0x7000);
  for (std::uint64_t id = 1; id <= 3; ++id) sample(0x4000, id);
  EXPECT_THAT(lines(), ElementsAre("1000-8000 4000 [11]"));
}

TEST_F(MappingLayoutTest, DoesNotJoinPartsOfOneObjectThatDoNotFit) {
  map(1, 11, 0x1000, 0x3000, 0x4000);
  map(2, 11, 0x3000, 0x5000, 0x4000);  // the same bytes again
  map(3, 11, 0x9000, 0xa000, 0xc000);  // fits, behind a gap
  for (std::uint64_t id = 1; id <= 3; ++id) sample(0x3000, id);
  EXPECT_THAT(lines(),
              ElementsAre("1000-3000 4000 [11]", "3000-5000 4000 [11]", "9000-a000 c000 [11]"));
}

TEST_F(MappingLayoutTest, JoinsAnonymousMemoryThatGrew) {
  map(1, 0, 0x1000, 0x3000, 0x1000);
  map(2, 0, 0x1000, 0x9000, 0x1000);
  sample(0x1000, 1);
  sample(0x8000, 2);
  EXPECT_THAT(lines(), ElementsAre("1000-9000 0 [anon]"));
}

TEST_F(MappingLayoutTest, MovesTheOlderOfTwoObjectsThatHadOneAddress) {
  map(1, 11, 0x1000, 0x3000, 0);
  map(2, 12, 0x2000, 0x4000, 0x1000);
  map(3, 13, 0x2000, 0x3000, 0);
  for (std::uint64_t id = 1; id <= 3; ++id) sample(0x2000, id);
  EXPECT_THAT(lines(), ElementsAre("2000-3000 0 [13]", "20000000000000-20000000002000 1000 [12]",
                                   "20000000003000-20000000005000 0 [11]"));
}

TEST_F(MappingLayoutTest, FindsEachFrameInItsMovedMapping) {
  map(1, 11, 0x1000, 0x3000, 0x8000);
  map(2, 12, 0x1000, 0x3000, 0);
  sample(0x2000, 1);
  sample(0x2000, 2);
  test::LocalParser parser;
  ObjectImages objects(parser, "test");
  const MappingLayout layout(process_, objects);
  ASSERT_NE(layout.find(1), nullptr);
  ASSERT_NE(layout.find(2), nullptr);
  EXPECT_EQ(0x2000 + layout.find(1)->shift, kMovedMappingsBase + 0x1000);
  EXPECT_EQ(layout.find(1)->offset_of(0x2000), 0x9000U);
  EXPECT_EQ(layout.find(2)->shift, 0U);
  EXPECT_EQ(layout.find(3), nullptr);
}

}  // namespace
}  // namespace profd
