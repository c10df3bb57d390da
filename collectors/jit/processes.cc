#include "collectors/jit/processes.h"

#include <time.h>

#include <algorithm>
#include <exception>
#include <iterator>
#include <utility>

#include "collectors/host/clock.h"
#include "collectors/host/fair_share.h"
#include "collectors/jit/directory_watch.h"
#include "collectors/jit/scan.h"

namespace profd {
namespace {

constexpr std::chrono::seconds kReapInterval{1};
// Between the rows of two processes. Each change makes the programs of all CPUs look up all code
// again, so a user with many processes must not cause one all the time.
constexpr std::chrono::milliseconds kRowsPause{250};
// Of one process, since a program can map any files.
constexpr std::size_t kMaxFilesOfProcess = 16;

// Memory of JIT code, or what may be the marker of a runtime.
bool is_reason_to_scan(const MappingView& mapping) {
  if (may_be_jit_code(mapping)) return true;
  if (mapping.kind != PROFD_MAPPING_FILE) return false;
  return mapping.names.starts_with("jit-") ||
         (mapping.file_offset == 0 && mapping.end - mapping.start <= kMaxMarkerBytes);
}

}  // namespace

Result<std::unique_ptr<JitProcesses>> JitProcesses::start(JitOptions options) {
  auto follower = JitFollower::start(options.directories, options.refusals, options.owners);
  if (!follower) return follower.error();
  return std::unique_ptr<JitProcesses>(new JitProcesses(std::move(*follower), std::move(options)));
}

void JitProcesses::on_process(const ProcessView& process) noexcept {
  try {
    users_.add(process.process, process.uid, options_.owners.owner_of(process.uid));
  } catch (const std::exception&) {  // no memory: only files of root are accepted as its own
  }
}

void JitProcesses::on_mapping(const MappingView& mapping) noexcept {
  try {
    add_mapping(mapping);
  } catch (const std::exception&) {  // no memory: its code has no names
  }
}

void JitProcesses::on_unmap(const UnmapView& unmap) noexcept {
  try {
    const auto known = processes_.find(unmap.process);
    if (known != processes_.end()) unmap_in_layers(known->second.layers, unmap);
  } catch (const std::exception&) {  // no memory: the code keeps its names
  }
}

void JitProcesses::add_mapping(const MappingView& mapping) {
  if (!is_reason_to_scan(mapping)) return;
  auto known = processes_.find(mapping.process);
  if (known == processes_.end()) {
    const std::uint32_t uid = uid_of(mapping.process);
    const std::uint32_t payer = options_.owners.owner_of(uid);
    if (const auto refusal = make_room(payer)) return stats_.refuse(*refusal, uid);
    ++count_of_user_[payer];
    known = processes_.try_emplace(mapping.process).first;
    known->second.uid = uid;
    known->second.payer = payer;
    scan(mapping.process, known->second);
  }
  if (may_be_jit_code(mapping)) {
    Process& process = known->second;
    if (process.memory.add({.start = mapping.start, .end = mapping.end})) {
      process.has_new_memory = true;
    }
    report_memory(mapping.process, process);
  }
}

std::optional<JitRefusal> JitProcesses::make_room(std::uint32_t payer) {
  if (processes_.size() >= kMaxProcesses) return JitRefusal::kQueueFull;
  if (payer == 0) return std::nullopt;
  if (count_of_user_[payer] >= kMaxProcessesOfUser) return JitRefusal::kOverShare;
  if (processes_.size() - count_of_user_[0] < kMaxProcessesOfUsers) return std::nullopt;
  const auto loser = user_with_more(count_of_user_, payer);
  if (!loser) return JitRefusal::kQueueFull;
  forget_one_of(*loser);
  return std::nullopt;
}

// The one with the fewest files.
void JitProcesses::forget_one_of(std::uint32_t payer) {
  auto least = processes_.end();
  for (auto process = processes_.begin(); process != processes_.end(); ++process) {
    if (process->second.payer != payer) continue;
    const bool has_fewer =
        least == processes_.end() || process->second.sources.size() < least->second.sources.size();
    if (has_fewer) least = process;
  }
  auto& [key, process] = *least;
  stats_.refuse(JitRefusal::kOverShare, process.uid);
  stop_watching(key, process);
  processes_.erase(least);
  --count_of_user_[payer];
}

std::uint32_t JitProcesses::uid_of(const ProcessKey& key) const {
  if (const auto uid = users_.uid_of(key)) return *uid;
  const Process* const known = find(key);
  return known == nullptr ? JitFollower::kNobody : known->uid;
}

const JitProcesses::Process* JitProcesses::find(const ProcessKey& key) const {
  const auto known = processes_.find(key);
  return known == processes_.end() ? nullptr : &known->second;
}

void JitProcesses::stop_watching(const ProcessKey& key, Process& process) const {
  if (std::exchange(process.is_watched, false)) options_.watch_memory(key, {});
}

// An unmap can end only code that is known.
void JitProcesses::report_memory(const ProcessKey& key, Process& process) const {
  if (process.is_gone) {
    stop_watching(key, process);
  } else if (process.has_new_memory && !process.layers.empty()) {
    options_.watch_memory(key, process.memory.all());
    process.has_new_memory = false;
    process.is_watched = true;
  }
}

std::chrono::seconds JitProcesses::interval(Clock::time_point now) const {
  const bool is_busy = std::ranges::any_of(processes_, [now](const auto& entry) {
    const Process& process = entry.second;
    return !process.is_gone &&
           (!process.sources.empty() || process.next_scan < now + kIdleInterval);
  });
  return is_busy ? kBusyInterval : kIdleInterval;
}

bool JitProcesses::poll(Clock::time_point now) {
  const bool is_clean = sources_.destroy_some();
  if (waiting_.empty()) std::ranges::move(follower_->take(), std::back_inserter(waiting_));
  for (bool is_part = false; !waiting_.empty() && !is_part;) {
    is_part = std::holds_alternative<JitFileGrew>(waiting_.front());
    std::visit([this](const auto& event) { on(event); }, waiting_.front());
    if (sources_.has_more()) return false;
    waiting_.pop_front();
  }
  scan_and_reap(now);
  if (options_.send_rows) send_rows(now);
  for (auto& [key, process] : processes_) report_memory(key, process);
  return waiting_.empty() && is_clean;
}

void JitProcesses::on(const JitProcessScanned& scanned) {
  const auto known = processes_.find(scanned.process);
  if (known == processes_.end()) return;
  Process& process = known->second;
  process.is_being_scanned = false;
  if (!scanned.scan.is_gone) process.facts = scanned.scan.facts;
  for (const JitRefusal reason : scanned.scan.refusals) {
    const auto place = static_cast<std::size_t>(reason);
    if (!process.refused.test(place)) stats_.refuse(reason, process.uid);
    process.refused.set(place);
  }
  for (const auto& file : scanned.scan.files) {
    attach(scanned.process, process, file, scanned.scan.has_shared_code);
  }
  inherit(scanned.process, process);
}

// A file causes a scan only of a process of its owner, so that no user makes work by files with the
// names of other users' processes.
void JitProcesses::on(const JitFileSeen& seen) {
  const auto is_of_kind = [&seen](const auto& source) {
    return source->file()->file->kind == seen.kind;
  };
  for (auto& [key, process] : processes_) {
    if (may_belong_to(key, process.facts, process.uid, seen.pid, seen.owner) &&
        std::ranges::none_of(process.sources, is_of_kind)) {
      scan(key, process);
    }
  }
}

// The owner of the file is charged for the time.
void JitProcesses::on(const JitFileGrew& grew) {
  const std::int64_t began_ns = now_ns(CLOCK_THREAD_CPUTIME_ID);
  if (const auto source = sources_.apply(grew)) {
    for (auto& [key, process] : processes_) {
      if (std::ranges::find(process.sources, source) != process.sources.end()) {
        add_layers(key, process, *source);
      }
    }
  }
  follower_->charge(grew.file->id.owner,
                    std::chrono::nanoseconds(now_ns(CLOCK_THREAD_CPUTIME_ID) - began_ns));
}

void JitProcesses::on(const JitFileEnded& ended) {
  const auto source = sources_.end(ended.file);
  if (!source || ended.reason != JitRefusal::kMalformed || source->writer()) return;
  // The file is no jitdump.
  for (auto& [key, process] : processes_) std::erase(process.sources, source);
}

void JitProcesses::scan(const ProcessKey& key, Process& process) {
  if (process.is_being_scanned || process.is_gone) return;
  const auto refusal = follower_->scan({.process = key, .uid = uid_of(key)}, process.payer);
  process.is_being_scanned = !refusal;
  if (refusal) stats_.refuse(*refusal, process.uid);
  process.next_scan = Clock::now() + process.scan_interval;
  process.scan_interval = std::min<Clock::duration>(2 * process.scan_interval, kLastScan);
}

void JitProcesses::scan_and_reap(Clock::time_point now) {
  if (now - reaped_at_ < kReapInterval) return;
  reaped_at_ = now;
  bool has_ended = false;
  for (auto& [key, process] : processes_) {
    if (now >= process.next_scan) scan(key, process);
    if (process.is_gone || !is_gone(key)) continue;
    process.is_gone = true;
    has_ended = true;
  }
  // A runtime writes the last records when it ends: they are read at once.
  if (has_ended) (void)follower_->read_to_end({});
}

void JitProcesses::attach(const ProcessKey& key, Process& process,
                          const std::shared_ptr<const JitFile>& file, bool is_shared) {
  const std::shared_ptr<JitSource> source = sources_.find_or_add(file);
  if (!source) return stats_.refuse(JitRefusal::kQueueFull, process.uid);
  if (std::ranges::find(process.sources, source) != process.sources.end()) return;
  if (process.sources.size() >= kMaxFilesOfProcess) {
    return stats_.refuse(JitRefusal::kOverShare, process.uid);
  }
  if (is_shared) source->share();
  process.sources.push_back(source);
  add_layers(key, process, *source);
}

// Adds what the process has of a source: its own code map, and the one of the file's writer. A
// process that has another one's file mapped is a forked child of that one.
void JitProcesses::add_layers(const ProcessKey& key, Process& process, JitSource& source) {
  add_layer(process, source, process.pid(key), UINT64_MAX);
  if (const auto writer = source.writer(); writer && *writer != process.pid(key)) {
    add_layer(process, source, *writer, start_of(key));
  }
}

void JitProcesses::add_layer(Process& process, JitSource& source, std::uint32_t pid,
                             std::uint64_t until_ns) {
  auto map = source.code_map_of(pid);
  if (!map) return stats_.refuse(JitRefusal::kForeignPid, process.uid);
  add_layer(process, {.map = std::move(map), .until_ns = until_ns});
}

// Between the two reads of the clocks the thread may lose its CPU, and the time in suspend then
// seems shorter than it is. It only grows, so the longest that was seen is the best.
std::uint64_t JitProcesses::start_of(const ProcessKey& key) {
  suspended_ns_ = std::max(suspended_ns_, now_ns(CLOCK_BOOTTIME) - now_ns(CLOCK_MONOTONIC));
  return key.start_ns - static_cast<std::uint64_t>(suspended_ns_);
}

void JitProcesses::add_layer(Process& process, JitLayer layer) {
  const bool is_known = std::ranges::any_of(
      process.layers, [&layer](const JitLayer& known) { return known.map == layer.map; });
  if (is_known) return;
  layer.map->has_process = true;
  const auto place = std::ranges::find_if(
      process.layers, [&layer](const JitLayer& known) { return known.until_ns < layer.until_ns; });
  process.layers.insert(place, std::move(layer));
  if (process.layers.size() > kMaxLayers) process.layers.pop_back();
}

// Adds the layers of the parent, if neither has called exec since the fork: both then have the same
// count of execs. The start distinguishes the parent from an ended process that had its pid.
void JitProcesses::inherit(const ProcessKey& key, Process& process) {
  if (process.facts.parent == 0) return;
  const std::uint64_t start = start_of(key);
  for (auto other = processes_.lower_bound({.tgid = process.facts.parent});
       other != processes_.end() && other->first.tgid == process.facts.parent; ++other) {
    const bool is_parent = other->first.exec_id == key.exec_id &&
                           start_ticks(other->first) == process.facts.parent_start_ticks;
    if (!is_parent) continue;
    for (const JitLayer& layer : other->second.layers) {
      add_layer(
          process,
          {.map = layer.map, .until_ns = std::min(layer.until_ns, start), .unmaps = layer.unmaps});
    }
  }
}

void JitProcesses::send_rows(Clock::time_point now) {
  std::erase_if(requests_, [](const Request& request) { return request.token.expired(); });
  if (now < next_rows_ || requests_.size() >= kMaxRequests) return;
  for (auto& [key, process] : processes_) {
    if (process.is_gone || now < process.next_rows || has_request(process.payer)) continue;
    std::uint64_t changes = 0;
    for (const JitLayer& layer : process.layers) changes += layer.map->rows.changes();
    if (changes == process.sent_changes) {
      process.rows_interval = kFirstRows;
      continue;
    }
    process.sent_changes = changes;
    process.next_rows = now + process.rows_interval;
    process.rows_interval = std::min<Clock::duration>(2 * process.rows_interval, kLastRows);
    send_rows_of(key, process);
    next_rows_ = now + kRowsPause;
    return;
  }
}

bool JitProcesses::has_request(std::uint32_t payer) const {
  return std::ranges::find(requests_, payer, &Request::payer) != requests_.end();
}

// Areas that had rows and have none any more get tables without rows. The last table that is made
// releases the rows, on the thread that makes it: that takes as long as to make it.
void JitProcesses::send_rows_of(const ProcessKey& key, Process& process) {
  auto rows = std::make_shared<JitRowsOfProcess>();
  for (const JitLayer& layer : process.layers) rows->add_layer(layer.map->rows.share());
  const std::vector<std::uint32_t> areas = rows->areas();
  std::set<std::uint32_t> all =
      std::exchange(process.sent_areas, std::set<std::uint32_t>(areas.begin(), areas.end()));
  all.insert(areas.begin(), areas.end());
  const auto token = std::make_shared<char>();
  requests_.push_back({.payer = process.payer, .token = token});
  for (const std::uint32_t area : all) {
    options_.send_rows(key, process.facts.uid, area, [token, area, kept = rows]() mutable {
      const auto shared = std::exchange(kept, nullptr);
      return shared->encode(area);
    });
  }
}

std::optional<JitFunction> JitProcesses::at(const ProcessKey& process, std::uint64_t address,
                                            std::uint64_t time_ns) {
  const Process* const known = find(process);
  if (known == nullptr) return std::nullopt;
  return find_in_layers(known->layers, address, time_ns);
}

std::optional<JitSourceFile> JitProcesses::source_file_of(const JitCode& code) const {
  const auto file = sources_.file(code.source);
  if (!file || !file->is_dump()) return std::nullopt;
  return *file;
}

std::optional<JitProcessInfo> JitProcesses::info(const ProcessKey& process) const {
  const Process* const known = find(process);
  if (known == nullptr) return std::nullopt;
  JitProcessInfo info{.file = {}, .runtime = known->facts.runtime, .is_gone = known->is_gone};
  if (!known->sources.empty()) {
    auto shown = std::ranges::find_if(known->sources, &JitSource::is_dump);
    if (shown == known->sources.end()) shown = known->sources.begin();
    const JitFile& file = *(*shown)->file()->file;
    info.file = file.path;
    info.kind = file.kind;
  }
  for (const JitLayer& layer : known->layers) info.functions += layer.map->index.functions();
  return info;
}

std::uint64_t JitProcesses::read_to_end(const std::vector<ProcessKey>& processes) {
  std::vector<WantedScan> wanted;
  wanted.reserve(processes.size());
  for (const ProcessKey& key : processes) {
    wanted.push_back({.process = key, .uid = uid_of(key)});
  }
  return follower_->read_to_end(std::move(wanted));
}

void JitProcesses::forget_unless(const std::function<bool(const ProcessKey&)>& needed) {
  for (auto& [key, process] : processes_) {
    process.is_gone = process.is_gone || is_gone(key);
    report_memory(key, process);
  }
  std::erase_if(processes_, [&needed](const auto& entry) {
    return entry.second.is_gone && !needed(entry.first);
  });
  count_of_user_.clear();
  std::set<const JitSource*> in_use;
  for (const auto& [key, process] : processes_) {
    ++count_of_user_[process.payer];
    for (const auto& source : process.sources) in_use.insert(source.get());
  }
  sources_.release_unless(in_use);
}

JitStats JitProcesses::stats() const {
  JitStats stats = follower_->stats();
  for (std::size_t reason = 0; reason < kJitRefusalCount; ++reason) {
    stats.refused[reason] += stats_.refused[reason];
  }
  stats.events = stats_.events;
  stats.malformed = stats_.malformed;
  for (const auto& [key, process] : processes_) stats.processes += !process.sources.empty();
  sources_.add_to(stats);
  return stats;
}

}  // namespace profd
