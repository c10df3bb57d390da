// Deferred stacks: the record has the registers, stack memory and mappings of the process, as
// ptrace and /proc show them.

#include <fcntl.h>
#include <poll.h>
#include <sys/ptrace.h>
#include <sys/user.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <fstream>
#include <set>
#include <sstream>
#include <thread>

#include "tests/bpf/frames.h"
#include "tests/bpf/unwind_test.h"
#include "tests/bpf/workload.h"

namespace profd::test {
namespace {

constexpr std::uint64_t kStackTop = 0x10000000000 + (1 << 20);  // frames.c, main()

user_regs_struct registers_by_ptrace(pid_t pid) {
  user_regs_struct registers{};
  EXPECT_EQ(::ptrace(PTRACE_SEIZE, pid, nullptr, nullptr), 0);
  EXPECT_EQ(::ptrace(PTRACE_INTERRUPT, pid, nullptr, nullptr), 0);
  EXPECT_EQ(::waitpid(pid, nullptr, 0), pid);
  EXPECT_EQ(::ptrace(PTRACE_GETREGS, pid, nullptr, &registers), 0);
  EXPECT_EQ(::ptrace(PTRACE_DETACH, pid, nullptr, nullptr), 0);
  return registers;
}

std::array<std::uint64_t, PROFD_DWARF_REGISTERS> by_dwarf_number(const user_regs_struct& r) {
  return {r.rax, r.rdx, r.rcx, r.rbx, r.rsi, r.rdi, r.rbp, r.rsp,
          r.r8,  r.r9,  r.r10, r.r11, r.r12, r.r13, r.r14, r.r15};
}

std::vector<std::uint64_t> memory_of(std::uint32_t pid, std::uint64_t address, std::size_t words) {
  const UniqueFd memory(::open(("/proc/" + std::to_string(pid) + "/mem").c_str(), O_RDONLY));
  std::vector<std::uint64_t> read(words);
  const auto bytes = static_cast<ssize_t>(words * sizeof(std::uint64_t));
  EXPECT_EQ(::pread(memory.get(), read.data(), static_cast<std::size_t>(bytes),
                    static_cast<off_t>(address)),
            bytes);
  return read;
}

// {start, end} of the executable mappings in /proc, without the kernel's vsyscall page.
using Ranges = std::set<std::pair<std::uint64_t, std::uint64_t>>;
Ranges executable_ranges(std::uint32_t pid) {
  std::ifstream maps("/proc/" + std::to_string(pid) + "/maps");
  Ranges ranges;
  for (std::string line; std::getline(maps, line);) {
    std::uint64_t start = 0;
    std::uint64_t end = 0;
    char dash = 0;
    std::string permissions;
    std::istringstream(line) >> std::hex >> start >> dash >> end >> permissions;
    if (permissions.at(2) == 'x' && start >> 63 == 0) ranges.emplace(start, end);
  }
  return ranges;
}

bool is_deferred(const StoredSample& sample) { return sample.view.user_end == PROFD_END_DEFERRED; }

SampleCondition deferred_in(const std::string& label) {
  return [address = frames_label(label)](const StoredSample& sample) {
    return is_deferred(sample) && sample.frame(0).address == address;
  };
}

// Frames of 48 bytes.
constexpr std::size_t kPlainFramesOfAPage = 85;

// A stack that is larger than the window that is sent.
std::vector<std::string> large_stack() {
  std::vector<std::string> kinds(400, "plain");
  kinds.emplace_back("leaf");
  return kinds;
}

class UnwindDeferredTest : public UnwindTest {
 protected:
  Ranges sent_ranges(std::uint32_t pid) const {
    Ranges ranges;
    for (const auto& [id, mapping] : sink_.mappings) {
      if (mapping.process.tgid == pid) ranges.emplace(mapping.start, mapping.end);
    }
    return ranges;
  }

  // Installs rows for the file of in_file, whose code is on both sides of a file region's end.
  void install_code(std::uint32_t pid, std::int32_t cfa_of_second) {
    install(mapping_at(pid, kBoundaryAddress).file,
            {{.offset = kBoundaryOffset - 16, .rule = cfa_rule(PROFD_DWARF_RSP, 8)},
             {.offset = kBoundaryOffset, .rule = cfa_rule(PROFD_DWARF_RSP, cfa_of_second)},
             {.offset = kBoundaryOffset + 64, .rule = {}}},
            100);
  }

  // A call at the end of the first region to `second`, at the beginning of the next one.
  std::string write_boundary_file(const std::string& second) const {
    using std::string_literals::operator""s;
    return write_code_file(
        directory_, {{kBoundaryOffset - 16, "\xe8\x0b\x00\x00\x00"s}, {kBoundaryOffset, second}});
  }
};

TEST_F(UnwindDeferredTest, AnInterruptedLeafIsSentWithAllItsRegistersAndItsStack) {
  const Workload workload({"plain", "clobber", "leaf_r11"}, {.program = frames_path()});
  raise_tables();
  sample({workload.pid()});
  const auto samples = collect(5, deferred_in("leaf_r11_spins"));
  const auto registers = by_dwarf_number(registers_by_ptrace(static_cast<pid_t>(workload.pid())));
  for (const StoredSample* sample : samples) {
    const profd_deferred_stack& stack = sample->deferred;
    ASSERT_EQ(sample->view.user_frames.size(), 1U);
    EXPECT_EQ(stack.ip, sample->frame(0).address);
    EXPECT_EQ(stack.sp, registers[PROFD_DWARF_RSP]);
    EXPECT_EQ(stack.bp, registers[PROFD_DWARF_RBP]);
    EXPECT_EQ(stack.bx, registers[PROFD_DWARF_RBX]);
    EXPECT_TRUE(std::ranges::equal(stack.registers, registers));
    EXPECT_EQ(stack.lost, 0U);
    EXPECT_EQ(stack.signal_frames, 0U);
    // From the red zone to the end of the stack, behind which no memory is mapped.
    EXPECT_EQ(stack.window_start, (stack.sp - PROFD_RED_ZONE_BYTES) & ~7ULL);
    EXPECT_EQ(sample->deferred_window.size(), (kStackTop - stack.window_start) / 8);
    EXPECT_EQ(sample->deferred_window,
              memory_of(workload.pid(), stack.window_start, sample->deferred_window.size()));
  }
}

TEST_F(UnwindDeferredTest, ALargeStackIsSentUpToTheLimit) {
  const Workload workload(large_stack(), {.program = frames_path()});
  raise_tables();
  sample({workload.pid()});
  for (const StoredSample* sample : collect(5, deferred_in("leaf_spins"))) {
    EXPECT_EQ(sample->deferred_window.size(), PROFD_DEFERRED_WINDOW_BYTES / 8);
    EXPECT_EQ(sample->deferred_window, memory_of(workload.pid(), sample->deferred.window_start,
                                                 sample->deferred_window.size()));
  }
}

// The leaf's frame is the lowest of its page, and no program touched the page below.
TEST_F(UnwindDeferredTest, AStackIsSentWithoutARedZoneThatIsNotPresent) {
  std::vector<std::string> kinds(kPlainFramesOfAPage, "plain");
  kinds.emplace_back("leaf");
  const Workload workload(kinds, {.program = frames_path()});
  raise_tables();
  sample({workload.pid()});
  for (const StoredSample* sample : collect(5, deferred_in("leaf_spins"))) {
    const profd_deferred_stack& stack = sample->deferred;
    ASSERT_LT(stack.sp % 4096, PROFD_RED_ZONE_BYTES);
    EXPECT_EQ(stack.window_start, stack.sp - stack.sp % 4096);
    EXPECT_EQ(sample->deferred_window.size(), (kStackTop - stack.window_start) / 8);
    EXPECT_EQ(sample->deferred_window,
              memory_of(workload.pid(), stack.window_start, sample->deferred_window.size()));
  }
}

TEST_F(UnwindDeferredTest, AFrameFoundByRowsIsSentWithItsKnownRegisters) {
  const Workload workload({write_boundary_file(kSpin), "plain", "in_file", "leaf"},
                          {.program = frames_path()});
  sample({workload.pid()});
  install_code(workload.pid(), 8);
  raise_tables();
  const auto samples = collect(5, [](const StoredSample& sample) {
    return is_deferred(sample) && sample.frame(0).address == kBoundaryAddress;
  });
  const user_regs_struct registers = registers_by_ptrace(static_cast<pid_t>(workload.pid()));
  const std::vector<KnownFrame> expected = {
      {kBoundaryAddress, PROFD_FRAME_INTERRUPTED},
      {kBoundaryAddress - 11, PROFD_FRAME_ROW},
      {frames_label("in_file_returns"), PROFD_FRAME_ROW},
  };
  for (const StoredSample* sample : samples) {
    EXPECT_EQ(frames_of(*sample), expected);
    EXPECT_EQ(sample->deferred.sp, registers.rsp + 16);
    EXPECT_EQ(sample->deferred.bp, registers.rbp);
    EXPECT_EQ(sample->deferred.bx, registers.rbx);
    EXPECT_EQ(sample->deferred.window_start, sample->deferred.sp);
    for (const std::uint64_t value : sample->deferred.registers) EXPECT_EQ(value, 0U);
  }
}

TEST_F(UnwindDeferredTest, AFrameBelowASignalIsSentWithAllItsRegisters) {
  using std::string_literals::operator""s;
  const std::string code = "\x49\xbb\x11\x22\x33\x44\x55\x66\x77\x08\x0f\x0b"s;  // mov r11; ud2
  const Workload workload({write_boundary_file(code), "plain", "in_file", "clobber", "leaf"},
                          {.program = frames_path()});
  sample({workload.pid()});
  const StoredMapping mapping = mapping_at(workload.pid(), frames_label("enter"));
  install(mapping.file, frames_rows(frames_rules(), mapping));
  raise_tables();
  for (const StoredSample* sample : collect(5, deferred_in("leaf_spins"))) {
    ASSERT_EQ(sample->view.user_frames.size(), 5U);
    EXPECT_EQ(sample->frame(4).address, kBoundaryAddress + 10);
    EXPECT_EQ(sample->frame(4).how, PROFD_FRAME_SIGNAL);
    EXPECT_EQ(sample->deferred.signal_frames, 1U);
    EXPECT_EQ(sample->deferred.registers[11], 0x0877665544332211U);
    EXPECT_EQ(sample->deferred.registers[PROFD_DWARF_RSP], sample->deferred.sp);
    EXPECT_LT(sample->deferred.sp, kStackTop);
    EXPECT_EQ(sample->deferred_window, memory_of(workload.pid(), sample->deferred.window_start,
                                                 sample->deferred_window.size()));
  }
}

TEST_F(UnwindDeferredTest, LostRegistersAreMarked) {
  using std::string_literals::operator""s;
  FrameRules rules = frames_rules();
  rules["clobber"].rbp_saved = PROFD_SAVED_LOST;
  // Calls the next kind.
  const std::string code = "\x48\x8b\x07\x48\x83\xc7\x08\xff\xd0\x0f\x0b"s;
  const Workload workload({write_boundary_file(code), "in_file", "clobber", "leaf"},
                          {.program = frames_path()});
  sample({workload.pid()});
  const StoredMapping mapping = mapping_at(workload.pid(), frames_label("enter"));
  install(mapping.file, frames_rows(rules, mapping));
  raise_tables();
  for (const StoredSample* sample : collect(5, deferred_in("leaf_spins"))) {
    ASSERT_EQ(sample->view.user_frames.size(), 3U);
    EXPECT_EQ(sample->frame(2).address, kBoundaryAddress + 9);
    EXPECT_EQ(sample->deferred.lost, PROFD_LOST_BP);
  }
}

TEST_F(UnwindDeferredTest, AllExecutableMappingsOfTheProcessAreSent) {
  CodeBytes pages;
  for (std::uint64_t i = 0; i < 100; ++i) pages[i * 4096] = kSpin;
  const Workload workload({"pages:" + write_code_file(directory_, pages), "plain", "leaf"},
                          {.program = frames_path()});
  raise_tables();
  sample({workload.pid()});
  const StoredSample* sample = collect(1, deferred_in("leaf_spins")).front();
  EXPECT_EQ(sample->view.mapping_ids.size(), 1U);
  const Ranges ranges = executable_ranges(workload.pid());
  EXPECT_GT(ranges.size(), 100U);
  EXPECT_EQ(sent_ranges(workload.pid()), ranges);
}

TEST_F(UnwindDeferredTest, OfVeryManyMappingsOnlyTheFirstAreSent) {
  CodeBytes pages;
  for (std::uint64_t i = 0; i < 5000; ++i) pages[i * 4096] = kSpin;
  const Workload workload({"pages:" + write_code_file(directory_, pages), "plain", "leaf"},
                          {.program = frames_path()});
  raise_tables();
  sample({workload.pid()});
  const StoredSample* sample = collect(1, deferred_in("leaf_spins")).front();
  // PROFD_MAX_LISTED of bpf/deferred.h, checked after each leaf of up to 16 mappings.
  constexpr std::size_t kMaxListed = 512;
  const std::size_t sent = sent_ranges(sample->view.process.tgid).size();
  EXPECT_GE(sent, kMaxListed);
  EXPECT_LT(sent, kMaxListed + 16);
}

TEST_F(UnwindDeferredTest, EachDeferredStackWakesUserSpace) {
  const Workload workload({"plain", "leaf"}, {.program = frames_path()});
  raise_tables();
  sample({workload.pid()});
  for (int i = 0; i < 3; ++i) {
    (void)collect(1, deferred_in("leaf_spins"));
    pollfd wake{.fd = wake_fd(), .events = POLLIN, .revents = 0};
    EXPECT_EQ(::poll(&wake, 1, 60'000), 1);
  }
}

class UnwindDeferredSmallRingTest : public UnwindDeferredTest {
 protected:
  void SetUp() override {
    ring_bytes_ = 64 << 10;
    UnwindDeferredTest::SetUp();
  }
};

TEST_F(UnwindDeferredSmallRingTest, AStackIsSentWithoutItsRestWhenTheRingIsHalfFull) {
  const Workload workload(large_stack(), {.program = frames_path()});
  raise_tables();
  sample({workload.pid()});
  std::this_thread::sleep_for(std::chrono::milliseconds(100));  // nobody drains
  (void)collect(1, is_deferred);
  const auto ends_with = [](profd_user_end end) {
    return [end](const StoredSample& sample) { return sample.view.user_end == end; };
  };
  EXPECT_GT(std::ranges::count_if(sink_.samples, ends_with(PROFD_END_DEFERRED)), 0);
  EXPECT_GT(std::ranges::count_if(sink_.samples, ends_with(PROFD_END_TABLE_LATE)), 0);
}

TEST_F(UnwindDeferredTest, NoStackIsDeferredBeforeTablesAreMade) {
  const Workload workload({"framed", "leaf"}, {.program = frames_path()});
  sample({workload.pid()});
  const auto samples =
      collect(20, [](const StoredSample& sample) { return !sample.view.user_frames.empty(); });
  for (const StoredSample* sample : samples) EXPECT_FALSE(is_deferred(*sample));
}

}  // namespace
}  // namespace profd::test
