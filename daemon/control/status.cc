#include "daemon/control/status.h"

#include <sys/resource.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <filesystem>
#include <fstream>
#include <system_error>
#include <utility>

#include "collectors/bpf/sample.h"
#include "daemon/samples/stack_table.h"
#include "formats/proc/stat.h"

namespace profd {
namespace {

constexpr std::size_t kWorstObjects = 10;

// Without the reasons that never occurred.
template <class Reason, std::size_t kCount>
CountsByReason named(const std::array<std::uint64_t, kCount>& counts,
                     std::string_view (*name)(Reason)) {
  CountsByReason named;
  for (std::size_t i = 0; i < kCount; ++i) {
    if (counts[i] != 0) named.emplace(name(static_cast<Reason>(i)), counts[i]);
  }
  return named;
}

double seconds_of(const timeval& time) {
  return static_cast<double>(time.tv_sec) + static_cast<double>(time.tv_usec) * 1e-6;
}

double cpu_seconds_of(const rusage& resources) {
  return seconds_of(resources.ru_utime) + seconds_of(resources.ru_stime);
}

std::uint64_t resident_bytes_of(const std::string& process) {
  std::uint64_t total_pages = 0;
  std::uint64_t resident_pages = 0;
  std::ifstream("/proc/" + process + "/statm") >> total_pages >> resident_pages;
  return resident_pages * static_cast<std::uint64_t>(::sysconf(_SC_PAGESIZE));
}

double cpu_seconds_of_process(const std::string& process) {
  const auto stat = read_process_stat("/proc/" + process + "/stat");
  if (!stat) return 0;
  return static_cast<double>(stat->user_ticks + stat->system_ticks) /
         static_cast<double>(::sysconf(_SC_CLK_TCK));
}

// Of all children: parsers, symbolizers, doors and those of XRay sessions. Each thread lists those
// that it forked; one that ends meanwhile is left out.
StatusInfo::Parsers describe_parsers() {
  StatusInfo::Parsers usage;
  rusage gone{};
  if (::getrusage(RUSAGE_CHILDREN, &gone) == 0) usage.cpu_seconds = cpu_seconds_of(gone);
  std::error_code error;
  for (const auto& thread : std::filesystem::directory_iterator("/proc/self/task", error)) {
    std::ifstream children(thread.path() / "children");
    for (std::string process; children >> process;) {
      ++usage.processes;
      usage.cpu_seconds += cpu_seconds_of_process(process);
      usage.rss_bytes += resident_bytes_of(process);
    }
  }
  return usage;
}

// Those that are not 0.
template <class Reason, std::size_t size>
CountsByReason counts_by_text(const std::array<std::uint64_t, size>& counts) {
  CountsByReason named;
  for (std::size_t i = 0; i < size; ++i) {
    if (counts[i] != 0) named.emplace(text_of(static_cast<Reason>(i)), counts[i]);
  }
  return named;
}

// Those of profd_interpreter_count that count no loss.
bool is_loss(std::size_t count) {
  return count != PROFD_INTERPRETED_STACKS && count != PROFD_INTERPRETED_STACKS_SENT &&
         count != PROFD_INTERPRETED_FRAMES && count != PROFD_INTERPRETED_CODES_SENT;
}

// What user space counts, by its name.
std::vector<std::pair<std::string_view, std::uint64_t>> losses_of_weaving(
    const InterpreterStats& stats) {
  return {{"unanchored", stats.woven.unanchored},
          {"loops_without_segment", stats.woven.loops_without_segment},
          {"over_share", stats.woven.without_number},
          {"orphans", stats.orphans},
          {"without_table", stats.without_table}};
}

CountsByReason refused_interpreters(const InterpreterStats& stats) {
  CountsByReason refused;
  for (std::size_t i = 0; i < kRuntimeVerdictCount; ++i) {
    const auto verdict = static_cast<RuntimeVerdict>(i);
    const bool is_refusal = verdict != RuntimeVerdict::kNone && verdict != RuntimeVerdict::kKnown;
    if (is_refusal && stats.verdicts[i] != 0) refused.emplace(name_of(verdict), stats.verdicts[i]);
  }
  const auto without_number = static_cast<std::uint64_t>(
      std::ranges::count(stats.files, false, &InterpreterFile::has_room));
  if (without_number != 0) refused.emplace(kNoInterpreterNumber, without_number);
  return refused;
}

}  // namespace

StatusInfo describe_process() {
  StatusInfo status;
  status.version = PROFD_VERSION;
  status.pid = static_cast<std::uint32_t>(::getpid());
  rusage resources{};
  if (::getrusage(RUSAGE_SELF, &resources) == 0) status.cpu_seconds = cpu_seconds_of(resources);
  status.rss_bytes = resident_bytes_of("self");
  status.parsers = describe_parsers();
  return status;
}

void add_ledger(const SamplerLedger& ledger, StatusInfo& status) {
  status.ledger = {.taken = ledger.taken,
                   .sent = ledger.sent,
                   .idle = ledger.idle,
                   .filtered = ledger.filtered,
                   .lost = named(ledger.lost, loss_name)};
  status.outside_namespace = ledger.outside_namespace;
  status.received = ledger.received;
  status.skipped_estimate = ledger.skipped_estimate;
  status.children_not_followed = ledger.not_followed;
  status.mapping_records = ledger.mapping_records;
  status.mapping_records_lost = {{"ring_full", ledger.mapping_records_lost},
                                 {"user_limit", ledger.mapping_records_limited}};
  std::erase_if(status.mapping_records_lost, [](const auto& lost) { return lost.second == 0; });
  status.process_records_lost = ledger.process_records_lost;
  status.unmaps = {.reported = ledger.unmap_records, .lost = ledger.unmap_records_lost};
  status.cpu_gaps = {.count = ledger.cpu_gaps,
                     .seconds = static_cast<double>(ledger.cpu_gap_ns) * 1e-9};
}

StatusInfo::Unwinding describe_unwinding(const UnwindStats& stats, const UnwindTally& tally,
                                         bool show_objects) {
  return {.user_samples = tally.user_samples(),
          .complete_samples = tally.complete_samples(),
          .incomplete = tally.incomplete(),
          .worst = show_objects ? tally.worst(kWorstObjects)
                                : std::vector<StatusInfo::Unwinding::Object>(),
          .tables = {.count = stats.tables,
                     .files = stats.files,
                     .rows = stats.rows,
                     .bytes = stats.bytes,
                     .arena_bytes = stats.arena_bytes,
                     .cap_bytes = stats.cap_bytes,
                     .rules = stats.rules,
                     .evicted = stats.evicted,
                     .loading = stats.loading,
                     .refused = named<TableRefusal>(stats.refused, name_of)},
          .deferred = {.waiting = stats.deferred_waiting,
                       .done = stats.deferred_done,
                       .abandoned = stats.deferred_abandoned},
          .parser_restarts = stats.parser_restarts};
}

StatusInfo::Jit describe_jit(const JitStats& stats) {
  return {.processes = stats.processes,
          .files = stats.files,
          .functions = stats.functions,
          .bytes = stats.bytes,
          .bytes_read = stats.bytes_read,
          .events = stats.events,
          .forgotten = stats.forgotten,
          .refused = named<JitRefusal>(stats.refused, name_of),
          .malformed = {stats.malformed.begin(), stats.malformed.end()}};
}

StatusInfo::Interpreters describe_interpreters(const InterpreterStats& stats, bool show_files) {
  StatusInfo::Interpreters described{
      .supported = stats.is_supported,
      .known = stats.verdicts[static_cast<std::size_t>(RuntimeVerdict::kKnown)],
      .stacks = stats.kernel[PROFD_INTERPRETED_STACKS],
      .frames = stats.kernel[PROFD_INTERPRETED_FRAMES],
      .processes = stats.codes.processes,
      .codes = stats.codes.codes,
      .bytes = stats.codes.bytes,
      .announced = stats.codes.announced,
      .lost = {},
      .refused = refused_interpreters(stats)};
  for (std::size_t i = 0; i < PROFD_INTERPRETER_COUNTS; ++i) {
    if (!is_loss(i) || stats.kernel[i] == 0) continue;
    described.lost.emplace(name_of_interpreter_count(i), stats.kernel[i]);
  }
  for (const auto& [reason, count] : losses_of_weaving(stats)) {
    if (count != 0) described.lost.emplace(reason, count);
  }
  if (!show_files) return described;
  for (const InterpreterFile& file : stats.files) {
    described.files.push_back(
        {.path = file.path, .runtime = file.text, .verdict = std::string(verdict_of(file))});
  }
  return described;
}

std::vector<std::string_view> interpreter_losses() {
  std::vector<std::string_view> reasons;
  for (std::size_t i = 0; i < PROFD_INTERPRETER_COUNTS; ++i) {
    if (is_loss(i)) reasons.push_back(name_of_interpreter_count(i));
  }
  for (const auto& [reason, count] : losses_of_weaving({})) reasons.push_back(reason);
  return reasons;
}

std::vector<std::string_view> interpreter_refusals() {
  std::vector<std::string_view> reasons{kNoInterpreterNumber};
  for (std::size_t i = 0; i < kRuntimeVerdictCount; ++i) {
    const auto verdict = static_cast<RuntimeVerdict>(i);
    const bool is_refusal = verdict != RuntimeVerdict::kNone && verdict != RuntimeVerdict::kKnown;
    if (is_refusal) reasons.push_back(name_of(verdict));
  }
  return reasons;
}

StatusInfo::OffCpu describe_off_cpu(const OffCpuStats& stats) {
  return {.threads_watched = stats.threads_watched,
          .threads_refused = stats.threads_refused,
          .walks = stats.walks,
          .walks_by_chance = stats.walks_by_chance,
          .scale = stats.scale,
          .ends_lost = stats.ends_lost,
          .open_blocks = stats.open_blocks,
          .open_bytes = stats.open_bytes};
}

StatusInfo::Names describe_names(const NamingStats& stats) {
  const LineStats& lines = stats.lines;
  return {.samples = stats.shares.samples,
          .fully_named = stats.shares.fully_named,
          .sources = counts_by_text<NameSource>(stats.shares.by_source),
          .cached_files = stats.cached_files,
          .cached_bytes = stats.cached_bytes,
          .looked_up = stats.looked_up,
          .read_back = stats.read_back,
          .debug_files = {.found = counts_by_text<DebugFilePlace>(stats.debug_files.found),
                          .refused = counts_by_text<DebugFileRefusal>(stats.debug_files.refused)},
          .lines = {.answered = lines.answered,
                    .addresses_lost = counts_by_text<DwarfLoss>(lines.addresses_lost),
                    .files_refused = counts_by_text<DwarfLoss>(lines.files_refused),
                    .cpu_seconds = std::chrono::duration<double>(lines.cpu_time).count(),
                    .failures = lines.failures}};
}

std::vector<std::string_view> name_sources() {
  return {kNameSourceTexts.begin(), kNameSourceTexts.end()};
}

std::vector<std::string_view> debug_file_places() {
  return {kDebugFilePlaceTexts.begin(), kDebugFilePlaceTexts.end()};
}

std::vector<std::string_view> debug_file_refusals() {
  return {kDebugFileRefusalTexts.begin(), kDebugFileRefusalTexts.end()};
}

// Without kNone.
std::vector<std::string_view> dwarf_losses() {
  return {std::next(kDwarfLossTexts.begin()), kDwarfLossTexts.end()};
}

std::vector<std::string_view> incomplete_reasons() {
  std::vector<std::string_view> reasons = {incomplete_reason(StackClass::kCompat, 0)};
  for (unsigned end = 0; end < PROFD_END_COUNT; ++end) {
    // A deferred stack gets its end before it is counted, and one that was not taken has none.
    if (reached_root(end) || end == PROFD_END_DEFERRED || !was_taken(end)) continue;
    reasons.push_back(incomplete_reason(StackClass::kUser, end));
  }
  return reasons;
}

}  // namespace profd
