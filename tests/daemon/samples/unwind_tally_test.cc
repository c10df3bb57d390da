#include "daemon/samples/unwind_tally.h"

#include <memory>
#include <set>
#include <string>

#include <gmock/gmock.h>

#include "daemon/samples/stack_table.h"
#include "tests/daemon/samples/synthetic_sample.h"

namespace profd {
namespace {

using test::kProcess;
using test::SyntheticSample;
using testing::ElementsAre;
using testing::IsEmpty;
using testing::Pair;
using testing::SizeIs;

auto is_object(const std::string& path, const std::string& reason, std::uint64_t samples) {
  return testing::AllOf(testing::Field(&StatusInfo::Unwinding::Object::path, path),
                        testing::Field(&StatusInfo::Unwinding::Object::reason, reason),
                        testing::Field(&StatusInfo::Unwinding::Object::samples, samples));
}

class UnwindTallyTest : public testing::Test {
 protected:
  void add_mapping(std::uint64_t id, profd_mapping_kind kind, const std::string& path) {
    MappingView view{};
    view.process = kProcess;
    view.id = id;
    view.kind = kind;
    view.start = id << 12;
    view.end = view.start + 4096;
    std::shared_ptr<MappedFile> file;
    if (!path.empty()) {
      view.file = {.inode = id, .size_bytes = 1, .ctime_ns = 1, .device = 1, .generation = 1};
      file = std::make_shared<MappedFile>();
      file->key = view.file;
      file->path = path;
      file->process = view.process;
    }
    processes_.add(view, file);
  }

  void count(SyntheticSample sample, int times = 1) {
    for (int i = 0; i < times; ++i) tally_.count(sample.view(), processes_);
  }

  // Its leaf is in mapping 99, which has no record, and its last frame in `mapping`.
  static SyntheticSample broken(std::uint64_t mapping, profd_user_end end) {
    return SyntheticSample(kProcess).leaf(0x99000, 99).user(mapping << 12, mapping).end(end);
  }

  ProcessTable processes_;
  UnwindTally tally_;
};

TEST_F(UnwindTallyTest, CountsEveryUserStackByItsEnd) {
  count(SyntheticSample(kProcess).leaf(1).end(PROFD_END_ENTRY), 90);
  count(SyntheticSample(kProcess).leaf(1).end(PROFD_END_NO_ROW), 3);
  count(SyntheticSample(kProcess).leaf(1).end(PROFD_END_WINDOW), 2);
  for (const profd_context context :
       {PROFD_CONTEXT_KTHREAD, PROFD_CONTEXT_EXIT, PROFD_CONTEXT_EXEC}) {
    count(SyntheticSample(kProcess).kernel(1).context(context).end(PROFD_END_NO_USER_STACK));
  }
  count(SyntheticSample(kProcess)
            .kernel(1)
            .context(PROFD_CONTEXT_COMPAT)
            .end(PROFD_END_NO_USER_STACK));
  EXPECT_EQ(tally_.user_samples(), 96U) << "without those that have no user stack";
  EXPECT_EQ(tally_.complete_samples(), 90U);
  EXPECT_THAT(tally_.incomplete(),
              ElementsAre(Pair("32_bit", 1), Pair("no_row", 3), Pair("window", 2)));
}

// Interpreted frames whose native ones the stack did not reach are the last ones.
TEST_F(UnwindTallyTest, NamesTheObjectOfTheLastNativeFrame) {
  add_mapping(1, PROFD_MAPPING_FILE, "/opt/python");
  count(broken(1, PROFD_END_NO_ROW).interpreted(1, 7).interpreted(2, 7));
  count(SyntheticSample(kProcess).interpreted(1, 7).end(PROFD_END_STACK_UNREADABLE));
  EXPECT_THAT(tally_.worst(10), ElementsAre(is_object("/opt/python", "no_row", 1),
                                            is_object("[unknown]", "stack_unreadable", 1)));
}

TEST_F(UnwindTallyTest, NamesTheObjectOfTheLastUserFrame) {
  add_mapping(1, PROFD_MAPPING_FILE, "/opt/good");
  add_mapping(2, PROFD_MAPPING_FILE, "/opt/bad");
  add_mapping(3, PROFD_MAPPING_ANONYMOUS, "");
  add_mapping(4, PROFD_MAPPING_VDSO, "");
  add_mapping(5, PROFD_MAPPING_FILE, "");
  count(broken(1, PROFD_END_ENTRY), 50);
  count(broken(2, PROFD_END_NO_ROW), 9);
  count(broken(2, PROFD_END_NO_TABLE), 2);
  count(broken(3, PROFD_END_NO_FRAME_POINTER), 8);
  count(broken(4, PROFD_END_NO_ROW), 7);
  count(broken(5, PROFD_END_NO_TABLE), 6);
  count(broken(6, PROFD_END_NO_ROW), 5);
  count(SyntheticSample(kProcess).leaf(1).end(PROFD_END_PC_UNMAPPED), 4);
  EXPECT_THAT(
      tally_.worst(7),
      ElementsAre(is_object("/opt/bad", "no_row", 9), is_object("[anon]", "no_frame_pointer", 8),
                  is_object("[vdso]", "no_row", 7), is_object("[unreachable]", "no_table", 6),
                  is_object("[unknown]", "no_row", 5), is_object("[unknown]", "pc_unmapped", 4),
                  is_object("/opt/bad", "no_table", 2)));
  EXPECT_THAT(tally_.worst(1), SizeIs(1));
}

TEST_F(UnwindTallyTest, TheObjectsWithTheMostSamplesStayWhenTheListIsFull) {
  add_mapping(1, PROFD_MAPPING_FILE, "/opt/worst");
  count(broken(1, PROFD_END_NO_ROW), 10);
  for (std::uint64_t id = 2; id < 4 * UnwindTally::kMaxObjects; ++id) {
    add_mapping(id, PROFD_MAPPING_FILE, "/opt/" + std::to_string(id));
    count(broken(id, PROFD_END_NO_ROW));
    ASSERT_LE(tally_.worst(100'000).size(), UnwindTally::kMaxObjects);
  }
  EXPECT_THAT(tally_.worst(1), ElementsAre(is_object("/opt/worst", "no_row", 10)));
}

TEST_F(UnwindTallyTest, LongPathsTakeNoMoreMemoryThanShortOnes) {
  constexpr std::size_t kLongest = 4096;
  add_mapping(1, PROFD_MAPPING_FILE, "/opt/worst");
  count(broken(1, PROFD_END_NO_ROW), 10);
  for (std::uint64_t id = 2; id < UnwindTally::kMaxObjects; ++id) {
    add_mapping(id, PROFD_MAPPING_FILE, "/" + std::to_string(id) + std::string(kLongest - 5, 'x'));
    count(broken(id, PROFD_END_NO_ROW));
    std::size_t bytes = 0;
    for (const auto& object : tally_.worst(100'000)) bytes += object.path.size();
    ASSERT_LE(bytes, UnwindTally::kMaxPathBytes);
  }
  EXPECT_THAT(tally_.worst(1), ElementsAre(is_object("/opt/worst", "no_row", 10)));
}

// Finds: blocks without a stack that count as stacks that unwinding could not finish.
TEST_F(UnwindTallyTest, AStackThatWasNotTakenHasNoEnd) {
  add_mapping(1, PROFD_MAPPING_FILE, "/opt/a");
  count(broken(1, PROFD_END_NOT_TAKEN), 3);
  count(broken(1, PROFD_END_BEFORE_START), 2);
  EXPECT_EQ(tally_.user_samples(), 0U);
  EXPECT_THAT(tally_.incomplete(), IsEmpty());
  EXPECT_THAT(tally_.worst(10), IsEmpty());
}

TEST_F(UnwindTallyTest, FilesOfOnePathAreOneObject) {
  add_mapping(1, PROFD_MAPPING_FILE, "/dev/zero");
  add_mapping(2, PROFD_MAPPING_FILE, "/dev/zero");
  count(broken(1, PROFD_END_NO_TABLE), 3);
  count(broken(2, PROFD_END_NO_TABLE), 4);
  EXPECT_THAT(tally_.worst(10), ElementsAre(is_object("/dev/zero", "no_table", 7)));
}

TEST_F(UnwindTallyTest, ShowsNoObjectWhileAllStacksAreComplete) {
  count(SyntheticSample(kProcess).leaf(1).end(PROFD_END_ENTRY));
  EXPECT_THAT(tally_.incomplete(), IsEmpty());
  EXPECT_THAT(tally_.worst(10), IsEmpty());
}

TEST(StackEnd, EveryReasonHasItsOwnName) {
  std::set<std::string_view> names{incomplete_reason(StackClass::kCompat, 0)};
  for (unsigned end = 0; end < PROFD_END_COUNT; ++end) {
    names.insert(incomplete_reason(StackClass::kUser, end));
    EXPECT_EQ(reached_root(end), end == PROFD_END_ENTRY);
  }
  EXPECT_EQ(names.size(), PROFD_END_COUNT + 1U);
  EXPECT_FALSE(names.contains("unknown"));
  EXPECT_FALSE(names.contains(""));
}

}  // namespace
}  // namespace profd
