#include "formats/api/event_list.h"

#include <linux/perf_event.h>

#include <array>

namespace profd {
namespace {

constexpr std::uint32_t kSoftware = PERF_TYPE_SOFTWARE;
constexpr std::uint32_t kHardware = PERF_TYPE_HARDWARE;

constexpr auto kKnownEvents = std::to_array<KnownEvent>({
    {"cpu", kSoftware, PERF_COUNT_SW_CPU_CLOCK, true, "CPU time (the default)"},
    {"cpu-clock", kSoftware, PERF_COUNT_SW_CPU_CLOCK, true, "the same as cpu"},
    {"task-clock", kSoftware, PERF_COUNT_SW_TASK_CLOCK, true, "CPU time by the clock of the task"},
    {"page-faults", kSoftware, PERF_COUNT_SW_PAGE_FAULTS, false, "page faults of any kind"},
    {"faults", kSoftware, PERF_COUNT_SW_PAGE_FAULTS, false, "the same as page-faults"},
    {"minor-faults", kSoftware, PERF_COUNT_SW_PAGE_FAULTS_MIN, false,
     "page faults that read no disk: the first use of memory"},
    {"major-faults", kSoftware, PERF_COUNT_SW_PAGE_FAULTS_MAJ, false,
     "page faults that wait for the disk"},
    {"context-switches", kSoftware, PERF_COUNT_SW_CONTEXT_SWITCHES, false,
     "a task leaves its CPU: it waits, or another one's turn comes"},
    {"cs", kSoftware, PERF_COUNT_SW_CONTEXT_SWITCHES, false, "the same as context-switches"},
    {"cpu-migrations", kSoftware, PERF_COUNT_SW_CPU_MIGRATIONS, false,
     "a task continues on another CPU"},
    {"migrations", kSoftware, PERF_COUNT_SW_CPU_MIGRATIONS, false, "the same as cpu-migrations"},
    {"alignment-faults", kSoftware, PERF_COUNT_SW_ALIGNMENT_FAULTS, false,
     "unaligned accesses that the kernel completes; none on x86"},
    {"emulation-faults", kSoftware, PERF_COUNT_SW_EMULATION_FAULTS, false,
     "instructions that the kernel emulates; none on x86"},
    {"cgroup-switches", kSoftware, PERF_COUNT_SW_CGROUP_SWITCHES, false,
     "context switches to a task of another cgroup"},
    {"cycles", kHardware, PERF_COUNT_HW_CPU_CYCLES, false, "cycles of the CPU"},
    {"cpu-cycles", kHardware, PERF_COUNT_HW_CPU_CYCLES, false, "the same as cycles"},
    {"instructions", kHardware, PERF_COUNT_HW_INSTRUCTIONS, false, "completed instructions"},
    {"cache-references", kHardware, PERF_COUNT_HW_CACHE_REFERENCES, false,
     "accesses to the last-level cache"},
    {"cache-misses", kHardware, PERF_COUNT_HW_CACHE_MISSES, false,
     "accesses that the last-level cache did not have"},
    {"branches", kHardware, PERF_COUNT_HW_BRANCH_INSTRUCTIONS, false, "completed branches"},
    {"branch-instructions", kHardware, PERF_COUNT_HW_BRANCH_INSTRUCTIONS, false,
     "the same as branches"},
    {"branch-misses", kHardware, PERF_COUNT_HW_BRANCH_MISSES, false,
     "branches that the CPU predicted wrongly"},
    {"bus-cycles", kHardware, PERF_COUNT_HW_BUS_CYCLES, false, "cycles of the bus"},
    {"ref-cycles", kHardware, PERF_COUNT_HW_REF_CPU_CYCLES, false,
     "cycles at the nominal clock speed of the CPU"},
    {"stalled-cycles-frontend", kHardware, PERF_COUNT_HW_STALLED_CYCLES_FRONTEND, false,
     "cycles that wait for instructions"},
    {"idle-cycles-frontend", kHardware, PERF_COUNT_HW_STALLED_CYCLES_FRONTEND, false,
     "the same as stalled-cycles-frontend"},
    {"stalled-cycles-backend", kHardware, PERF_COUNT_HW_STALLED_CYCLES_BACKEND, false,
     "cycles that wait for data or units"},
    {"idle-cycles-backend", kHardware, PERF_COUNT_HW_STALLED_CYCLES_BACKEND, false,
     "the same as stalled-cycles-backend"},
});

constexpr auto kBlockEvents = std::to_array<KnownEvent>({
    {"off-cpu", kSoftware, PERF_COUNT_SW_CPU_CLOCK, true,
     "time that threads wait for something, by the stack that waits"},
    {"runnable", kSoftware, PERF_COUNT_SW_CPU_CLOCK, true,
     "time that threads could run, and wait for a CPU"},
    {"wall", kSoftware, PERF_COUNT_SW_CPU_CLOCK, true,
     "all time of threads: cpu, off-cpu, runnable"},
});

}  // namespace

std::span<const KnownEvent> known_events() { return kKnownEvents; }

std::span<const KnownEvent> block_events() { return kBlockEvents; }

}  // namespace profd
