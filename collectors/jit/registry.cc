#include "collectors/jit/registry.h"

#include <signal.h>
#include <time.h>

#include <algorithm>
#include <cerrno>
#include <utility>

#include "collectors/host/clock.h"

namespace profd {
namespace {

using Clock = JitRegistry::Clock;

constexpr std::size_t kMaxSources = 60'000;
constexpr std::size_t kMaxUids = 16'384;
constexpr std::chrono::seconds kMaxRowsInterval{8};
// Between two processes' rows: whoever makes processes must not make all CPUs forget all the time.
constexpr std::chrono::milliseconds kRowsPause{250};
constexpr std::uint64_t kMarkerBytes = 4096;
// Of one process: a program can map what it likes.
constexpr std::size_t kMaxFilesOfProcess = 16;

// What looks like a runtime's marker, or is memory of made code.
bool may_be_of_jit(const MappingView& mapping) {
  if (is_jit_code(mapping)) return true;
  if (mapping.kind != PROFD_MAPPING_FILE) return false;
  return mapping.names.starts_with("jit-") ||
         (mapping.file_offset == 0 && mapping.end - mapping.start <= kMarkerBytes);
}

void count_foreign(const JitSource& source, JitStats& stats) {
  const std::uint64_t records = source.foreign_records();
  if (records != 0) stats.damaged["foreign_pid"] += records;
}

bool is_gone(const ProcessKey& process) {
  return ::kill(static_cast<pid_t>(process.tgid), 0) != 0 && errno == ESRCH;
}

// A process's start in the clock of samples.
std::uint64_t monotonic_start_ns(const ProcessKey& process) {
  const std::int64_t asleep = now_ns(CLOCK_BOOTTIME) - now_ns(CLOCK_MONOTONIC);
  return process.start_ns - static_cast<std::uint64_t>(asleep);
}

}  // namespace

void JitRegistry::on_process(const ProcessView& view) {
  if (uids_.size() >= kMaxUids) uids_.clear();
  uids_.insert_or_assign(view.process, view.uid);
}

void JitRegistry::on_mapping(const MappingView& mapping) {
  if (!may_be_of_jit(mapping)) return;
  auto known = processes_.find(mapping.process);
  if (known == processes_.end()) {
    const std::uint32_t uid = uid_of(mapping.process);
    if (const auto refusal = refusal_of(uid)) return refuse(*refusal);
    ++processes_of_[uid];
    keys_.insert(mapping.process);
    known = processes_.emplace(mapping.process, std::make_unique<Process>()).first;
    known->second->uid = uid;
    look(mapping.process, *known->second);
  }
  if (is_jit_code(mapping)) {
    memory_.add(mapping.process, {.start = mapping.start, .end = mapping.end},
                need_of(mapping.process), watch_);
  }
}

void JitRegistry::on_unmap(const UnmapView& unmap) {
  const auto known = processes_.find(unmap.process);
  if (known != processes_.end()) give_up(known->second->layers, unmap);
}

// Where there is no code that is known there is none to end.
JitCodeMemory::Need JitRegistry::need_of(const ProcessKey& key) const {
  const Process* const process = find(key);
  if (process == nullptr || process->is_gone) return JitCodeMemory::Need::kNoMore;
  return process->layers.empty() ? JitCodeMemory::Need::kNotYet : JitCodeMemory::Need::kNow;
}

void JitRegistry::watch_memory() {
  memory_.tell([this](const ProcessKey& key) { return need_of(key); }, watch_);
}

std::optional<JitRefusal> JitRegistry::refusal_of(std::uint32_t uid) const {
  if (processes_.size() >= kMaxProcesses) return JitRefusal::kQueueFull;
  const auto of_user = processes_of_.find(uid);
  if (uid == 0 || of_user == processes_of_.end()) return std::nullopt;
  if (of_user->second >= kMaxProcessesOfUser) return JitRefusal::kOverShare;
  return std::nullopt;
}

void JitRegistry::look(const ProcessKey& key, Process& process) {
  if (process.is_looked_for || process.is_gone) return;
  process.is_looked_for = follower_.look(key, uid_of(key));
  if (!process.is_looked_for) refuse(JitRefusal::kQueueFull);
  process.next_look = Clock::now() + process.interval;
  process.interval = std::min<Clock::duration>(2 * process.interval, kLastLook);
}

void JitRegistry::on(const JitProcessSeen& seen) {
  const auto known = processes_.find(seen.process);
  if (known == processes_.end()) return;
  Process& process = *known->second;
  process.is_looked_for = false;
  if (!seen.look.is_gone) process.facts = seen.look.facts;
  for (const JitRefusal reason : seen.look.refusals) {
    const auto place = static_cast<std::size_t>(reason);
    if (!process.refused.test(place)) refuse(reason);
    process.refused.set(place);
  }
  for (const auto& file : seen.look.files) {
    attach(seen.process, process, file, !seen.look.shared.empty());
  }
  inherit(seen.process, process);
}

// Whoever makes files that are named after others' processes causes no work.
void JitRegistry::on(const JitFileSeen& seen) {
  const auto is_of_kind = [&seen](const auto& source) { return source->file().kind == seen.kind; };
  for (auto& [key, process] : processes_) {
    const bool is_named = process->facts.pid_in_space == seen.pid || key.tgid == seen.pid;
    const std::uint32_t uid = process->facts.pid_in_space != 0 ? process->facts.uid : process->uid;
    const bool may_be_its = seen.owner == 0 || seen.owner == uid;
    if (is_named && may_be_its && std::ranges::none_of(process->sources, is_of_kind)) {
      look(key, *process);
    }
  }
}

std::shared_ptr<JitSource> JitRegistry::source_of(const std::shared_ptr<const JitFile>& file) {
  std::shared_ptr<JitSource>& source = files_[file->id];
  if (source) return source;
  std::erase_if(sources_, [](const auto& entry) { return entry.second.expired(); });
  if (sources_.size() >= kMaxSources) {
    files_.erase(file->id);
    return nullptr;
  }
  while (sources_.contains(last_source_)) ++last_source_;
  source = std::make_shared<JitSource>();
  source->told = std::make_shared<JitNumberedSource>(
      JitNumberedSource{.number = last_source_, .source = {.file = file, .state = {}}});
  sources_.emplace(last_source_, source->told);
  return source;
}

std::shared_ptr<JitCodeMap> JitRegistry::make_space(const JitFile& file) {
  auto space = std::make_shared<JitCodeMap>(++last_space_, file);
  spaces_.push_back(space);
  return space;
}

void JitRegistry::attach(const ProcessKey& key, Process& process,
                         const std::shared_ptr<const JitFile>& file, bool is_shared) {
  const std::shared_ptr<JitSource> source = source_of(file);
  if (std::ranges::find(process.sources, source) != process.sources.end()) return;
  if (!source) return refuse(JitRefusal::kQueueFull);
  if (process.sources.size() >= kMaxFilesOfProcess) return refuse(JitRefusal::kOverShare);
  // Once records went to single processes they stay there.
  if (source->spaces.empty()) source->is_shared = is_shared && source->is_dump();
  process.sources.push_back(source);
  link(key, process, *source);
}

// What of a file's code is the process's.
void JitRegistry::link(const ProcessKey& key, Process& process, JitSource& source) {
  // Of one that was gone before it could be looked at, its pid here is all that is known.
  const std::uint32_t pid = process.facts.pid_in_space != 0 ? process.facts.pid_in_space : key.tgid;
  const std::uint32_t own = source.place_of(pid);
  add_layer_of(process, source, own, UINT64_MAX);
  if (!source.state().header_read) return;
  const std::uint32_t writer = source.place_of(source.state().pid);
  if (writer == own) return;
  // Who has another one's file mapped was forked by it.
  add_layer_of(process, source, writer, monotonic_start_ns(key));
}

void JitRegistry::add_layer_of(Process& process, JitSource& source, std::uint32_t place,
                               std::uint64_t until_ns) {
  if (auto space = space_of(source, place)) {
    add_layer(process, {.space = std::move(space), .until_ns = until_ns, .given_up = {}});
  } else {
    refuse(JitRefusal::kForeignPid);
  }
}

// Null: there are too many already. The writer's is always among them.
std::shared_ptr<JitCodeMap> JitRegistry::space_of(JitSource& source, std::uint32_t place) {
  const auto known = source.spaces.find(place);
  if (known != source.spaces.end()) return known->second;
  const bool is_writers =
      source.state().header_read && place == source.place_of(source.state().pid);
  if (source.spaces.size() >= JitSource::kMaxSpaces && !is_writers) return nullptr;
  auto space = make_space(source.file());
  space->is_everyones = source.is_shared;
  space->told_by.push_back(source.told);
  return source.spaces.emplace(place, std::move(space)).first->second;
}

void JitRegistry::add_layer(Process& process, JitLayer layer) {
  const bool is_known = std::ranges::any_of(
      process.layers, [&layer](const JitLayer& known) { return known.space == layer.space; });
  if (is_known) return;
  layer.space->has_process = true;
  const auto place = std::ranges::find_if(
      process.layers, [&layer](const JitLayer& known) { return known.until_ns < layer.until_ns; });
  process.layers.insert(place, std::move(layer));
  if (process.layers.size() > kMaxLayers) process.layers.pop_back();
}

// From a parent that has not called exec since, as far as the kernel's own count tells. One that is
// gone may have had the parent's pid before it, and be anyone's.
void JitRegistry::inherit(const ProcessKey& key, Process& process) {
  if (process.facts.parent == 0) return;
  const std::uint64_t start = monotonic_start_ns(key);
  for (auto other = keys_.lower_bound({.tgid = process.facts.parent, .exec_id = 0, .start_ns = 0});
       other != keys_.end() && other->tgid == process.facts.parent; ++other) {
    const bool is_parent =
        other->exec_id == key.exec_id && start_ticks(*other) == process.facts.parent_start_ticks;
    if (!is_parent) continue;
    for (const JitLayer& layer : processes_.at(*other)->layers) {
      add_layer(process, {.space = layer.space,
                          .until_ns = std::min(layer.until_ns, start),
                          .given_up = layer.given_up});
    }
  }
}

void JitRegistry::on(const JitFileGrew& grew) {
  count_damage(grew);
  const auto known = files_.find(grew.file->id);
  if (known == files_.end() || known->second->is_full) return;
  JitSource& source = *known->second;
  const bool had_header = source.state().header_read;
  const auto tsc = tsc_.conversion();
  const JitLeftOut left_out = take_up(source, grew, tsc ? &*tsc : nullptr,
                                      [this, &source] { return make_space(source.file()); });
  if (left_out.foreign != 0) {
    refuse(JitRefusal::kForeignPid);
    stats_.damaged["foreign_pid"] += left_out.foreign;
  }
  if (left_out.lines != 0) stats_.damaged["lines_without_code"] += left_out.lines;
  weigh(source);
  if (had_header || !source.state().header_read) return;
  for (auto& [key, process] : processes_) {
    if (std::ranges::find(process->sources, known->second) != process->sources.end()) {
      link(key, *process, source);
    }
  }
}

void JitRegistry::count_damage(const JitFileGrew& grew) {
  if (const auto* dump = std::get_if<JitDumpChunk>(&grew.chunk)) {
    stats_.events += dump->read.events.size();
    for (std::size_t i = 0; i < kJitDumpDamages; ++i) {
      const std::uint64_t count = dump->read.damage[i];
      if (count == 0) continue;
      stats_.damaged[std::string(name_of(static_cast<JitDumpDamage>(i)))] += count;
    }
    return;
  }
  const PerfMapLines& read = std::get<PerfMapChunk>(grew.chunk).read;
  stats_.events += read.lines.size();
  if (read.bad_lines != 0) stats_.damaged["bad_line"] += read.bad_lines;
  if (read.long_lines != 0) stats_.damaged["long_line"] += read.long_lines;
}

// A file that tells more than fits is not read on; what it told stays.
void JitRegistry::weigh(JitSource& source) {
  for (const auto& [pid, space] : source.spaces) space->bytes = space->memory_bytes();
  const std::uint32_t owner = source.file().owner;
  const bool is_over = bytes_of(std::nullopt) > kMaxBytes;
  if (!is_over && (owner == 0 || bytes_of(owner) <= kMaxBytesOfUser)) return;
  source.is_full = true;
  refuse(is_over ? JitRefusal::kOverMemory : JitRefusal::kOverShare);
  follower_.let_go(source.file().id);
}

std::size_t JitRegistry::bytes_of(std::optional<std::uint32_t> owner) const {
  std::size_t bytes = 0;
  for (const std::weak_ptr<JitCodeMap>& entry : spaces_) {
    const auto space = entry.lock();
    if (space && (!owner || space->owner == *owner)) bytes += space->bytes;
  }
  for (const auto& [id, source] : files_) {
    if (!owner || source->file().owner == *owner) bytes += source->memory_bytes();
  }
  return bytes;
}

// Found again later it is another file; what the old one told stays.
void JitRegistry::on(const JitFileEnded& ended) {
  const auto known = files_.find(ended.file);
  if (known == files_.end()) return;
  if (ended.reason == JitRefusal::kMalformed && !known->second->state().header_read) {
    for (auto& [key, process] : processes_) std::erase(process->sources, known->second);
  }
  known->second->expected.clear();
  count_foreign(*known->second, stats_);
  files_.erase(known);
}

void JitRegistry::look_again(Clock::time_point now) {
  for (auto& [key, process] : processes_) {
    if (now >= process->next_look) look(key, *process);
  }
}

// The programs have to look everything up again after each change: where it goes on, they come the
// more rarely.
void JitRegistry::give_rows(const TakeRows& take_rows, Clock::time_point now) {
  if (now < next_rows_) return;
  for (auto& [key, process] : processes_) {
    if (process->is_gone || now < process->next_rows) continue;
    std::uint64_t changes = 0;
    for (const JitLayer& layer : process->layers) changes += layer.space->rows.changes();
    if (changes == process->rows_given) {
      process->rows_interval = kLifeInterval;
      continue;
    }
    process->rows_given = changes;
    process->next_rows = now + process->rows_interval;
    process->rows_interval =
        std::min<Clock::duration>(2 * process->rows_interval, kMaxRowsInterval);
    give_rows_of(key, *process, take_rows);
    next_rows_ = now + kRowsPause;
    return;
  }
}

void JitRegistry::give_rows_of(const ProcessKey& key, Process& process, const TakeRows& take_rows) {
  JitCodeRows rows;
  for (const JitLayer& layer : process.layers) rows.add_missing(layer.space->rows);
  std::map<std::uint32_t, std::string> tables = rows.tables();
  for (const std::uint32_t region : process.regions) {
    if (auto none = UnwindTableWriter().encode()) tables.try_emplace(region, std::move(*none));
  }
  for (const auto& [region, table] : tables) {
    take_rows(key, process.facts.uid, region, table);
    process.regions.insert(region);
  }
}

void JitRegistry::look_who_lives(Clock::time_point now) {
  if (now - looked_who_lives_ < kLifeInterval) return;
  looked_who_lives_ = now;
  look_again(now);
  Dead dead;
  for (auto& [key, process] : processes_) {
    if (process->is_gone || !is_gone(key)) continue;
    process->is_gone = true;
    dead.processes.push_back(key);
  }
  if (dead.processes.empty()) return;
  dead.ticket = follower_.read_on({});
  dead_.push_back(std::move(dead));
}

void JitRegistry::end_dead(std::uint64_t read_ticket) {
  while (!dead_.empty() && dead_.front().ticket <= read_ticket) {
    for (const ProcessKey& key : dead_.front().processes) {
      const auto known = processes_.find(key);
      if (known == processes_.end()) continue;
      for (const JitLayer& layer : known->second->layers) {
        if (layer.space.use_count() <= 2) layer.space->index.seen_until(UINT64_MAX);
      }
    }
    dead_.erase(dead_.begin());
  }
}

std::uint32_t JitRegistry::uid_of(const ProcessKey& key) const {
  const auto uid = uids_.find(key);
  return uid == uids_.end() ? JitFollower::kNobody : uid->second;
}

const JitRegistry::Process* JitRegistry::find(const ProcessKey& key) const {
  const auto known = processes_.find(key);
  return known == processes_.end() ? nullptr : known->second.get();
}

std::shared_ptr<const JitNumberedSource> JitRegistry::source(std::uint16_t number) const {
  const auto known = sources_.find(number);
  return known == sources_.end() ? nullptr : known->second.lock();
}

void JitRegistry::forget_unless(const std::function<bool(const ProcessKey&)>& needed) {
  boost::unordered::erase_if(processes_, [&needed](const auto& entry) {
    return (entry.second->is_gone || is_gone(entry.first)) && !needed(entry.first);
  });
  processes_of_.clear();
  for (const auto& [key, process] : processes_) ++processes_of_[process->uid];
  std::erase_if(keys_, [this](const ProcessKey& key) { return !processes_.contains(key); });
  std::set<const JitSource*> in_use;
  for (const auto& [key, process] : processes_) {
    for (const auto& source : process->sources) in_use.insert(source.get());
  }
  std::erase_if(files_, [this, &in_use](const auto& entry) {
    if (in_use.contains(entry.second.get())) return false;
    count_foreign(*entry.second, stats_);
    follower_.let_go(entry.first);
    return true;
  });
  std::erase_if(spaces_, [](const auto& space) { return space.expired(); });
}

void JitRegistry::add_to(JitStats& stats) const {
  stats = stats_;
  stats.bytes = bytes_of(std::nullopt);
  for (const auto& [key, process] : processes_) stats.processes += !process->sources.empty();
  for (const auto& [id, source] : files_) count_foreign(*source, stats);
  for (const std::weak_ptr<JitCodeMap>& entry : spaces_) {
    const auto space = entry.lock();
    if (!space) continue;
    stats.functions += space->index.functions();
    for (const std::uint64_t lost : space->index.losses()) stats.forgotten += lost;
  }
}

}  // namespace profd
