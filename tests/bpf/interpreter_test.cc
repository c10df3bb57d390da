// Interpreted frames on this kernel, of a program that has the memory of CPython 3.13 (forged.c).

#include <array>
#include <cstdio>
#include <cstring>
#include <map>
#include <optional>
#include <set>
#include <string>
#include <vector>

#include "bpf/python_abi.h"
#include "tests/bpf/unwind_test.h"
#include "tests/bpf/workload.h"

namespace profd::test {
namespace {

constexpr std::uint16_t kRuntime = 3;
constexpr std::uint8_t kLayout = 5;

// What forged.c has.
profd_python_layout forged_layout() {
  profd_python_layout layout{};
  layout.tstate_frame = 72;
  layout.tstate_thread_id = 152;
  layout.frame_code = 0;
  layout.frame_previous = 8;
  layout.frame_position = 56;
  layout.frame_boundary = 70;
  layout.boundary_value = 3;
  layout.frame_bytes = 72;
  layout.code_text = 200;
  layout.code_units = 16;
  layout.code_first_line = 68;
  layout.code_file = 112;
  layout.code_name = 120;
  layout.code_qualname = 128;
  layout.code_lines = 136;
  layout.code_version = 92;
  layout.object_type = 8;
  layout.str_length = 16;
  layout.str_state = 32;
  layout.str_ascii = 40;
  layout.str_other = 56;
  layout.bytes_size = 16;
  layout.bytes_data = 32;
  layout.position = PROFD_PYTHON_POINTER;
  layout.anchor = PROFD_PYTHON_SHIM;
  layout.frames_are_near = 1;
  return layout;
}

class InterpreterTest : public UnwindTest {
 protected:
  // Runs the program, and has its file known as an interpreter.
  void run(const std::string& mode) {
    workload_.emplace(std::vector<std::string>{mode},
                      WorkloadOptions{.program = PROFD_TEST_FORGED});
    unsigned long slot = 0;
    unsigned long code_type = 0;
    unsigned long code = 0;
    ASSERT_EQ(std::sscanf(workload_->said().c_str(), "%lx %lx %lx", &slot, &code_type, &code), 3);
    sample({workload_->pid()});
    const StoredMapping& mapping = mapping_at(workload_->pid(), code);
    profd_runtime runtime{};
    // The program is loaded where its file says.
    runtime.bias = mapping.file_offset - mapping.start;
    runtime.code_type = code_type;
    runtime.slot[0] = static_cast<std::int64_t>(slot);
    runtime.slot_form[0] = PROFD_SLOT_GLOBAL;
    runtime.kind = PROFD_RUNTIME_PYTHON;
    runtime.layout = kLayout;
    const profd_python_layout python = forged_layout();
    profd_layout layout{};
    std::memcpy(layout.words, &python, sizeof(python));
    put("profd_layouts", kLayout, &layout);
    put("profd_runtimes", kRuntime, &runtime);
    runtime_ = kRuntime;
    install_none(mapping.file);
    raise_tables();
  }

  // Whole stacks since the call.
  std::vector<const StoredSample*> collect_stacks(std::size_t wanted) {
    return collect(wanted,
                   [](const StoredSample& sample) { return sample.view.user_frames.size() == 4; });
  }

  std::uint64_t count(profd_interpreter_count which) { return counters().interpreted[which]; }

  std::optional<Workload> workload_;
};

const StoredInterpreted* find_stack(const RecordingSink& sink, const StoredSample& sample) {
  for (const StoredInterpreted& stack : sink.interpreted) {
    if (stack.cpu == sample.view.cpu && stack.time_ns == sample.view.time_ns &&
        stack.process == sample.view.process) {
      return &stack;
    }
  }
  return nullptr;
}

// Finds: boundaries that are not met, or that the wrong native frame meets.
TEST_F(InterpreterTest, ASampleIsPrecededByItsInterpretedFrames) {
  run("good");
  for (const StoredSample* sample : collect_stacks(30)) {
    ASSERT_EQ(sample->view.interpreted, PROFD_INTERPRETED_SENT);
    const StoredInterpreted* const stack = find_stack(sink_, *sample);
    ASSERT_NE(stack, nullptr);
    EXPECT_EQ(stack->end, PROFD_CHAIN_COMPLETE);
    EXPECT_FALSE(stack->of_block);
    std::string text;
    for (const profd_interpreted_entry& entry : stack->entries) {
      text += entry.kind == PROFD_ENTRY_BOUNDARY ? "|" : sink_.codes[entry.value].name + "+";
      text += std::to_string(entry.position) + " ";
    }
    EXPECT_EQ(text, "f+3 g+5 |1 h+1 |2 ");
  }
  workload_->end();
  EXPECT_EQ(count(PROFD_INTERPRETED_STACKS),
            count(PROFD_INTERPRETED_STACKS_SENT) + count(PROFD_INTERPRETED_NO_THREAD_STATE) +
                count(PROFD_INTERPRETED_STATE_MISMATCH) +
                count(PROFD_INTERPRETED_UNREADABLE_STATE) + count(PROFD_INTERPRETED_NO_ROOM));
  EXPECT_GE(count(PROFD_INTERPRETED_STACKS_SENT), 30U);
  EXPECT_GE(count(PROFD_INTERPRETED_FRAMES), 90U);
}

// Finds: a tag that is not set, or that is not asked for.
TEST_F(InterpreterTest, CodeIsAnnouncedOnceUntilItsTagIsCleared) {
  run("good");
  run_on(workload_->pid(), allowed_cpus().front());
  (void)collect_stacks(30);
  std::set<std::string> names;
  for (const auto& [id, code] : sink_.codes) {
    names.insert(code.name + " " + code.qualifier + " " + code.file + " " + code.lines + " " +
                 std::to_string(code.first_line) + " " + std::to_string(code.units));
  }
  EXPECT_EQ(names, (std::set<std::string>{"f f forged.py abc 10 100", "g g forged.py abc 20 100",
                                          "h h forged.py abc 30 100"}));
  // A move to another CPU between the check of a tag and its change may repeat one.
  const std::uint64_t sent = count(PROFD_INTERPRETED_CODES_SENT);
  EXPECT_GE(sent, 3U);
  EXPECT_LE(sent, 6U);
  (void)collect_stacks(30);
  EXPECT_EQ(count(PROFD_INTERPRETED_CODES_SENT), sent);

  const profd_code_tags none{};
  put("profd_code_tags", 0, &none);
  (void)collect_stacks(30);
  // A tick may come while the tags are cleared.
  EXPECT_GE(count(PROFD_INTERPRETED_CODES_SENT), sent + 3);
  EXPECT_LE(count(PROFD_INTERPRETED_CODES_SENT), sent + 6);
}

struct Verdict {
  const char* mode;
  profd_interpreted interpreted;
  profd_interpreter_count reason;
};

class InterpreterVerdictTest : public InterpreterTest,
                               public testing::WithParamInterface<Verdict> {};

TEST_P(InterpreterVerdictTest, AStackWithoutAStateIsCountedByItsReason) {
  run(GetParam().mode);
  for (const StoredSample* sample : collect_stacks(30)) {
    EXPECT_EQ(sample->view.interpreted, GetParam().interpreted);
  }
  workload_->end();
  EXPECT_TRUE(sink_.interpreted.empty());
  EXPECT_GE(count(GetParam().reason), 30U);
  EXPECT_EQ(count(PROFD_INTERPRETED_STACKS), count(GetParam().reason));
}

INSTANTIATE_TEST_SUITE_P(
    Modes, InterpreterVerdictTest,
    testing::Values(Verdict{"none", PROFD_INTERPRETED_NONE, PROFD_INTERPRETED_NO_THREAD_STATE},
                    Verdict{"mismatch", PROFD_INTERPRETED_LOST, PROFD_INTERPRETED_STATE_MISMATCH},
                    Verdict{"unreadable", PROFD_INTERPRETED_LOST,
                            PROFD_INTERPRETED_UNREADABLE_STATE}),
    [](const auto& verdict) { return std::string(verdict.param.mode); });

}  // namespace
}  // namespace profd::test
