// User and kernel stacks of programs whose call chains are known, frame by frame.

#include <sys/syscall.h>

#include <algorithm>
#include <functional>
#include <set>

#include "tests/bpf/sampling_test.h"
#include "tests/bpf/workload.h"

namespace profd::test {
namespace {

class StackTest : public SamplingTest {
 protected:
  // The samples of a process since it was ready; the stack of ready() is complete too.
  std::vector<const StoredSample*> settled(std::uint32_t tgid) const;
};

std::vector<std::string> functions_of(const StoredSample& sample) {
  std::vector<std::string> names;
  for (std::size_t i = 0; i < sample.view.user_frames.size(); ++i) {
    const UserFrame frame = sample.frame(i);
    names.push_back(workload_function(frame.address - (frame.how != PROFD_FRAME_INTERRUPTED)));
  }
  return names;
}

// Those in which the workload has begun and its file has a table: on a slow host (an emulator) the
// first stacks have only a leaf until then.
std::vector<const StoredSample*> StackTest::settled(std::uint32_t tgid) const {
  std::vector<const StoredSample*> samples = sink_.of_process(tgid);
  std::erase_if(samples, [](const StoredSample* sample) {
    return std::ranges::count(functions_of(*sample), "ready") != 0;
  });
  const auto is_late = [](const StoredSample* sample) {
    return sample->view.user_end == PROFD_END_TABLE_LATE;
  };
  const auto last_late = std::find_if(samples.rbegin(), samples.rend(), is_late);
  samples.erase(samples.begin(), last_late.base());
  return samples;
}

// Leaf first, from spin() to enter(), which cleared the frame pointer.
std::vector<std::string> recursion(std::size_t depth) {
  std::vector<std::string> names = {"spin"};
  names.insert(names.end(), depth + 1, "recurse");
  names.insert(names.end(), {"run_recurse", "enter"});
  return names;
}

TEST_F(StackTest, EveryFrameOfARecursionIsFound) {
  const Workload workload({"recurse", "25"});
  const SessionSlot slot = start(target_of_pid(workload.pid()));
  collect(workload.pid(), 200);
  stop_balanced(slot);
  std::size_t in_user_mode = 0;
  for (const StoredSample* sample : settled(workload.pid())) {
    EXPECT_EQ(functions_of(*sample), recursion(25));
    EXPECT_EQ(sample->view.user_end, PROFD_END_FP_ZERO);
    EXPECT_EQ(sample->view.tid, workload.pid());
    in_user_mode += sample->view.context == PROFD_CONTEXT_USER;
    EXPECT_EQ(sample->view.kernel_frames.empty(), sample->view.context == PROFD_CONTEXT_USER);
  }
  EXPECT_GT(in_user_mode, 100U);
}

TEST_F(StackTest, AFrameHasItsKindAndItsMapping) {
  const Workload workload({"recurse", "3"});
  const SessionSlot slot = start(target_of_pid(workload.pid()));
  collect(workload.pid(), 20);
  stop_balanced(slot);
  for (const StoredSample* sample : settled(workload.pid())) {
    EXPECT_EQ(sample->frame(0).how, PROFD_FRAME_INTERRUPTED);
    for (std::size_t i = 0; i < sample->view.user_frames.size(); ++i) {
      const UserFrame frame = sample->frame(i);
      EXPECT_EQ(frame.how, i == 0 ? PROFD_FRAME_INTERRUPTED : PROFD_FRAME_POINTER);
      ASSERT_LT(frame.mapping, sample->view.mapping_ids.size());
      const StoredMapping& mapping = sink_.mappings.at(sample->view.mapping_ids[frame.mapping]);
      EXPECT_GE(frame.address, mapping.start);
      EXPECT_LT(frame.address, mapping.end);
    }
  }
}

TEST_F(StackTest, AStackDeeperThanTheLimitIsTruncatedAndMarked) {
  const Workload workload({"recurse", "1100"});
  const SessionSlot slot = start(target_of_pid(workload.pid()));
  // The first stacks are deferred until the program has a table. They end with the window that was
  // sent, or, where a busy host has the table too late, with the frame that needed it.
  const auto is_deferred = [](const StoredSample* sample) {
    return sample->view.user_end == PROFD_END_WINDOW ||
           sample->view.user_end == PROFD_END_TABLE_LATE;
  };
  collect_until([&] {
    const auto samples = settled(workload.pid());
    return samples.size() >
           20U + static_cast<std::size_t>(std::ranges::count_if(samples, is_deferred));
  });
  stop_balanced(slot);
  for (const StoredSample* sample : settled(workload.pid())) {
    if (is_deferred(sample)) continue;
    EXPECT_EQ(sample->view.user_frames.size(), std::size_t{PROFD_MAX_USER_FRAMES});
    EXPECT_EQ(sample->view.user_end, PROFD_END_DEPTH_LIMIT);
    EXPECT_EQ(functions_of(*sample).back(), "recurse");
  }
}

// The chain of frames is one that no real program has.
TEST_F(StackTest, AStackThatChangesBetweenMappingsAtEachFrameIsCutAndMarked) {
  const auto frames_with = [this](const std::string& mappings, profd_user_end end) {
    const Workload workload({"cycle", mappings});
    const SessionSlot slot = start(target_of_pid(workload.pid()));
    const auto is_cycle = [&](const StoredSample* sample) {
      return functions_of(*sample).front() == "spin_with" && sample->view.user_end == end;
    };
    const auto cycles = [&] {
      auto samples = settled(workload.pid());
      std::erase_if(samples, std::not_fn(is_cycle));
      return samples;
    };
    collect_until([&] { return cycles().size() >= 50; });
    stop_balanced(slot);
    std::set<std::size_t> frames;
    for (const StoredSample* sample : cycles()) frames.insert(sample->view.user_frames.size());
    return frames;
  };
  EXPECT_EQ(frames_with("6", PROFD_END_FP_ZERO), std::set<std::size_t>{1001});
  const std::set<std::size_t> cut = frames_with("20", PROFD_END_MAPPING_CHANGES);
  EXPECT_GE(*cut.begin(), 48U);
  EXPECT_LE(*cut.rbegin(), 48U + 20U);
}

struct StackEnd {
  const char* name;
  const char* mode;
  profd_user_end end;
  std::vector<std::string> functions;
};

class StackEndTest : public StackTest, public testing::WithParamInterface<StackEnd> {
 protected:
  // Samples in spin_with() only.
  std::vector<const StoredSample*> spinning(std::uint32_t tgid) const;

  // Whether the stack is from the time before the program had a table. For a deferred stack user
  // space knows executable mappings only. A busy host may open the program too late, and then tries
  // again after a second; until then there is no table.
  static bool is_before_table(const StoredSample& sample) {
    if (sample.view.user_end == PROFD_END_NO_TABLE) return true;
    return sample.view.user_end == PROFD_END_PC_UNMAPPED &&
           GetParam().end == PROFD_END_PC_NOT_EXECUTABLE;
  }
};

std::vector<const StoredSample*> StackEndTest::spinning(std::uint32_t tgid) const {
  std::vector<const StoredSample*> samples = settled(tgid);
  std::erase_if(samples, [](const StoredSample* sample) {
    const std::vector<std::string> functions = functions_of(*sample);
    return functions.empty() || functions.front() != "spin_with";
  });
  return samples;
}

// workload.c, run_stack(): two frames at the end of a page, each case malformed in one way. How
// many stacks are deferred until the program's table is ready depends on the machine: those after
// them count.
TEST_P(StackEndTest, HasItsReasonAndKeepsTheFramesBefore) {
  const Workload workload({"stack", GetParam().mode});
  const SessionSlot slot = start(target_of_pid(workload.pid()));
  collect_until([&] {
    return std::ranges::count_if(spinning(workload.pid()),
                                 [](const auto* sample) { return !is_before_table(*sample); }) > 40;
  });
  stop_balanced(slot);
  for (const StoredSample* sample : spinning(workload.pid())) {
    EXPECT_EQ(functions_of(*sample), GetParam().functions);
    EXPECT_TRUE(is_before_table(*sample) || sample->view.user_end == GetParam().end)
        << sample->view.user_end;
  }
}

const std::vector<std::string> kLeaf = {"spin_with"};
const std::vector<std::string> kWhole = {"spin_with", "spin", "spin"};

INSTANTIATE_TEST_SUITE_P(
    StackTest, StackEndTest,
    testing::Values(StackEnd{"Zero", "zero", PROFD_END_FP_ZERO, kWhole},
                    StackEnd{"Misaligned", "misaligned", PROFD_END_NO_ROW, kWhole},
                    StackEnd{"Downwards", "downwards", PROFD_END_NO_ROW, kWhole},
                    StackEnd{"Unreadable", "unreadable", PROFD_END_STACK_UNREADABLE, kWhole},
                    StackEnd{"Unmapped", "unmapped", PROFD_END_PC_UNMAPPED, kLeaf},
                    StackEnd{"NotExecutable", "not-executable", PROFD_END_PC_NOT_EXECUTABLE,
                             kLeaf}),
    [](const auto& end) { return std::string(end.param.name); });

TEST_F(StackTest, ASystemCallHasBothStacksAndALeafBehindTheSyscallInstruction) {
  const Workload workload({"syscalls"});
  const SessionSlot slot = start(target_of_pid(workload.pid()));
  collect(workload.pid(), 300);
  stop_balanced(slot);
  const std::vector<std::string> expected = {"call_kernel", "run_syscalls", "enter"};
  std::size_t in_system_call = 0;
  for (const StoredSample* sample : settled(workload.pid())) {
    EXPECT_EQ(functions_of(*sample), expected) << "in context " << unsigned{sample->view.context}
                                               << ", ended by " << unsigned{sample->view.user_end};
    if (sample->view.context != PROFD_CONTEXT_SYSCALL) continue;
    ++in_system_call;
    EXPECT_FALSE(sample->view.kernel_frames.empty());
    EXPECT_EQ(sample->frame(0).how, PROFD_FRAME_SYSCALL);
    for (const std::uint64_t address : sample->view.kernel_frames) EXPECT_GE(address >> 63, 1U);
  }
  EXPECT_GT(in_system_call, 100U);
}

TEST_F(StackTest, AFaultIsATrapWithTheFaultingFunctionAsItsExactLeaf) {
  const Workload workload({"faults"});
  const SessionSlot slot = start(target_of_pid(workload.pid()));
  collect(workload.pid(), 300);
  stop_balanced(slot);
  std::size_t traps = 0;
  for (const StoredSample* sample : settled(workload.pid())) {
    if (sample->view.context != PROFD_CONTEXT_TRAP) continue;
    ++traps;
    EXPECT_FALSE(sample->view.kernel_frames.empty());
    EXPECT_EQ(functions_of(*sample).front(), "fault_pages");
    EXPECT_EQ(sample->frame(0).how, PROFD_FRAME_INTERRUPTED);
  }
  EXPECT_GT(traps, 50U);
}

TEST_F(StackTest, ThreadsOfOneProcessAreDistinguished) {
  const Workload workload({"threads", "4"});
  const SessionSlot slot = start(target_of_pid(workload.pid()));
  std::set<std::uint32_t> threads;
  collect_until([&] {
    for (const StoredSample* sample : sink_.of_process(workload.pid())) {
      threads.insert(sample->view.tid);
    }
    return threads.size() == 4;
  });
  stop_balanced(slot);
  std::set<ProcessKey> processes;
  for (const StoredSample& sample : sink_.samples) processes.insert(sample.view.process);
  EXPECT_EQ(processes.size(), 1U);
}

TEST_F(StackTest, AnExitingTaskHasAKernelStackOnly) {
  const Workload workload({"exits"});
  const SessionSlot slot = start(target_of_pid(workload.pid()));
  const auto in_exit = [&] {
    return std::ranges::count(sink_.samples, PROFD_CONTEXT_EXIT,
                              [](const StoredSample& sample) { return sample.view.context; });
  };
  collect_until([&] { return in_exit() >= 20; });
  stop_balanced(slot);
  for (const StoredSample& sample : sink_.samples) {
    if (sample.view.context != PROFD_CONTEXT_EXIT) continue;
    EXPECT_TRUE(sample.view.user_frames.empty());
    EXPECT_EQ(sample.view.user_end, PROFD_END_NO_USER_STACK);
    EXPECT_FALSE(sample.view.kernel_frames.empty());
  }
}

TEST_F(StackTest, HardwareCyclesGiveTheSameStacksFromNmiContext) {
  const EventSpec event = event_of("cpu", 999);
  const Workload workload({"recurse", "25"});
  const SessionSlot slot = start(target_of_pid(workload.pid()), event);
  collect(workload.pid(), 200);
  stop_balanced(slot);
  for (const StoredSample* sample : settled(workload.pid())) {
    EXPECT_EQ(functions_of(*sample), recursion(25));
  }
}

}  // namespace
}  // namespace profd::test
