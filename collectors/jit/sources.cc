#include "collectors/jit/sources.h"

#include <algorithm>
#include <string>
#include <utility>
#include <variant>

#include "collectors/host/fair_share.h"

namespace profd {
namespace {

constexpr std::size_t kMaxSources = 60'000;

// The key of the code map that all processes share; no pid.
constexpr std::uint32_t kEveryone = UINT32_MAX;

const std::vector<JitUnwindRows>* rows_of(const JitFileGrew& part, std::size_t event) {
  const auto found = part.rows.find(event);
  return found == part.rows.end() ? nullptr : &found->second;
}

void add_malformed(JitStats& stats, std::string_view reason, std::uint64_t count) {
  if (count != 0) stats.malformed[std::string(reason)] += count;
}

}  // namespace

JitSource::JitSource(std::shared_ptr<const JitFile> file, std::uint16_t number, JitCodeMaps& maps)
    : file_(std::make_shared<JitSourceFile>(
          JitSourceFile{.file = std::move(file), .state = {}, .number = number})),
      maps_(maps) {}

std::optional<std::uint32_t> JitSource::writer() const {
  if (!file_->state.header_read) return std::nullopt;
  return file_->state.pid;
}

void JitSource::share() { is_shared_ = is_shared_ || (code_maps_.empty() && is_dump()); }

std::shared_ptr<JitCodeMap> JitSource::code_map_of(std::uint32_t pid) {
  const std::uint32_t key = is_shared_ ? kEveryone : pid;
  const auto known = code_maps_.find(key);
  if (known != code_maps_.end()) return known->second;
  if (!is_dump() && !code_maps_.empty()) return nullptr;
  if (code_maps_.size() >= kMaxCodeMaps && pid != writer()) return nullptr;
  return code_maps_.emplace(key, maps_.make(file_, is_shared_)).first->second;
}

// What one call of apply() has done and may still do.
struct JitSource::Turn {
  Progress& progress;
  std::size_t steps_left = kMaxStepsOfTurn;
  std::uint64_t foreign_pids = 0;
  std::uint64_t scattered = 0;  // functions that have no rows because they are in too many areas
  std::uint64_t lines_without_code = 0;
  std::uint64_t last_ns = 0;

  // An event and its first function with rows are applied in one turn.
  [[nodiscard]] bool is_over() const { return steps_left < 2 || progress.room == 0; }

  // Counts a change of memory.
  void charge(std::size_t before, std::size_t after) {
    if (after < before) {
      progress.room += before - after;
    } else {
      progress.room -= std::min(progress.room, after - before);
    }
  }

  void charge(JitCodeMap& map) {
    const std::size_t before = std::exchange(map.bytes, map.memory_bytes());
    charge(before, map.bytes);
  }

  // Replaces the rows of the code's addresses, as far as there are steps left. New code without
  // rows removes those that were there. True: all functions are done.
  bool replace_rows(JitCodeRows& rows, const JitDumpEvent& event,
                    const std::vector<JitUnwindRows>* functions) {
    if (progress.function == 0 && event.kind != JitDumpEventKind::kUnwindingInfo) {
      rows.erase(event.address, event.address + event.code_bytes);
    }
    if (functions == nullptr) return true;
    for (; progress.function < functions->size() && steps_left > 0; --steps_left) {
      if (!rows.set((*functions)[progress.function++])) ++scattered;
    }
    return progress.function == functions->size();
  }
};

bool JitSource::apply(const JitFileGrew& part, Progress& progress,
                      const std::optional<TscConversion>& tsc, JitStats& stats) {
  Turn turn{.progress = progress};
  return is_dump() ? apply_dump(part, turn, tsc, stats) : apply_map(part, turn);
}

bool JitSource::apply_dump(const JitFileGrew& part, Turn& turn,
                           const std::optional<TscConversion>& tsc, JitStats& stats) {
  const auto& chunk = std::get<JitDumpChunk>(part.chunk);
  const bool is_tsc = chunk.state.has_arch_timestamps();
  const auto read_ns = static_cast<std::uint64_t>(part.read_ns);
  file_->state = chunk.state;
  const std::size_t lines_before = memory_bytes();
  while (turn.progress.event < chunk.read.events.size() && !turn.is_over()) {
    const JitDumpEvent& event = chunk.read.events[turn.progress.event];
    std::uint64_t time_ns = event.timestamp;
    if (is_tsc) time_ns = tsc ? tsc_to_ns(event.timestamp, *tsc) : read_ns;
    turn.last_ns = std::max(turn.last_ns, std::min(time_ns, read_ns));  // not of the future
    apply_event(part, turn, time_ns);
  }
  turn.charge(lines_before, memory_bytes());
  for (const auto& [pid, map] : code_maps_) {
    map->last_record_ns = std::max(map->last_record_ns, turn.last_ns);
  }
  if (turn.foreign_pids != 0) stats.refuse(JitRefusal::kForeignPid, file_->owner());
  add_malformed(stats, "foreign_pid", turn.foreign_pids);
  add_malformed(stats, "scattered_rows", turn.scattered);
  add_malformed(stats, "lines_without_code", turn.lines_without_code);
  return turn.progress.event == chunk.read.events.size();
}

// Applies the next event, or a part of its unwind rows.
void JitSource::apply_event(const JitFileGrew& part, Turn& turn, std::uint64_t time_ns) {
  Progress& progress = turn.progress;
  const JitDumpEvent& event = std::get<JitDumpChunk>(part.chunk).read.events[progress.event];
  --turn.steps_left;
  bool is_done = true;
  std::shared_ptr<JitCodeMap> map;
  switch (event.kind) {
    case JitDumpEventKind::kLoad:
    case JitDumpEventKind::kMove:
      map = progress.function == 0 ? apply_code(event, time_ns) : code_map_of(event.pid);
      if (map == nullptr) ++turn.foreign_pids;
      break;
    case JitDumpEventKind::kDebugInfo:
      if (!add_waiting_lines(event)) ++turn.lines_without_code;
      break;
    case JitDumpEventKind::kUnwindingInfo:  // has no pid: it is the writer's
      map = code_map_of(file_->state.pid);
      break;
    case JitDumpEventKind::kClose:  // other processes may go on writing
      break;
  }
  if (map != nullptr) {
    is_done = turn.replace_rows(map->rows, event, rows_of(part, progress.event));
    turn.charge(*map);
  }
  if (!is_done) return;
  ++progress.event;
  progress.function = 0;
}

// Null: there is no code map for the record's pid.
std::shared_ptr<JitCodeMap> JitSource::apply_code(const JitDumpEvent& event,
                                                  std::uint64_t time_ns) {
  auto map = code_map_of(event.pid);
  if (map == nullptr) return nullptr;
  ++map->loads;
  if (event.kind == JitDumpEventKind::kMove) {
    map->index.move(event.old_address, event.address, time_ns);
  } else {
    const JitFileRange waiting = take_waiting_lines(event.address);
    map->index.add({.address = event.address,
                    .bytes = event.code_bytes,
                    .born_ns = time_ns,
                    .source = file_->number,
                    .name = event.name,
                    .code = event.code,
                    .debug_info = event.debug_info.bytes != 0 ? event.debug_info : waiting,
                    .unwinding_info = event.unwinding_info});
  }
  return map;
}

// False: there is no room.
bool JitSource::add_waiting_lines(const JitDumpEvent& event) {
  const bool has_room = waiting_lines_.size() < kMaxWaitingLines;
  if (!has_room && !waiting_lines_.contains(event.address)) return false;
  waiting_lines_.insert_or_assign(event.address, event.debug_info);
  return true;
}

JitFileRange JitSource::take_waiting_lines(std::uint64_t address) {
  const auto lines = waiting_lines_.extract(address);
  return lines ? lines.mapped() : JitFileRange{};
}

bool JitSource::apply_map(const JitFileGrew& part, Turn& turn) {
  const std::vector<PerfMapLine>& lines = std::get<PerfMapChunk>(part.chunk).read.lines;
  if (code_maps_.empty()) return true;
  JitCodeMap& map = *code_maps_.begin()->second;
  for (; turn.progress.event < lines.size() && !turn.is_over(); --turn.steps_left) {
    const PerfMapLine& line = lines[turn.progress.event++];
    ++map.loads;
    map.index.add({.address = line.address,
                   .bytes = line.bytes,
                   .born_ns = static_cast<std::uint64_t>(part.read_ns),
                   .source = file_->number,
                   .name = line.name});
    turn.charge(map);
  }
  return turn.progress.event == lines.size();
}

std::size_t JitSource::memory_bytes() const {
  constexpr std::size_t kNodeBytes = 32;  // of a std::map, besides the value
  return waiting_lines_.size() * (sizeof(decltype(waiting_lines_)::value_type) + kNodeBytes);
}

std::uint64_t JitSource::foreign_records() const {
  std::uint64_t count = 0;
  for (const auto& [pid, map] : code_maps_) {
    if (!map->has_process) count += map->loads;
  }
  return count;
}

std::shared_ptr<JitSource> JitSources::find_or_add(const std::shared_ptr<const JitFile>& file) {
  const auto known = sources_.find(file->id);
  if (known != sources_.end()) return known->second;
  std::erase_if(files_, [](const auto& entry) { return entry.second.expired(); });
  if (files_.size() >= kMaxSources) return nullptr;
  while (files_.contains(last_number_)) ++last_number_;
  auto source = std::make_shared<JitSource>(file, last_number_, maps_);
  files_.emplace(last_number_, source->file());
  return sources_.emplace(file->id, std::move(source)).first->second;
}

std::shared_ptr<JitSource> JitSources::apply(const JitFileGrew& part) {
  if (!progress_) count_malformed(part);
  const auto known = sources_.find(part.file->id);
  if (known == sources_.end() || known->second->has_ended()) {
    progress_.reset();
    return nullptr;
  }
  const std::shared_ptr<JitSource> source = known->second;
  if (!progress_) progress_.emplace();
  if (progress_->room == 0) {
    const Room room = make_room(source->file()->owner());
    if (room.bytes == 0) {
      progress_.reset();
      stop_reading(*source, room.refusal);
      return nullptr;
    }
    progress_->room = room.bytes;
  }
  const bool had_header = source->writer().has_value();
  if (source->apply(part, *progress_, tsc_.conversion(), stats_)) progress_.reset();
  return !had_header && source->writer() ? source : nullptr;
}

void JitSources::count_malformed(const JitFileGrew& part) {
  if (const auto* dump = std::get_if<JitDumpChunk>(&part.chunk)) {
    stats_.events += dump->read.events.size();
    for (std::size_t i = 0; i < kJitDumpFaults; ++i) {
      add_malformed(stats_, name_of(static_cast<JitDumpFault>(i)), dump->read.malformed[i]);
    }
    return;
  }
  const PerfMapLines& read = std::get<PerfMapChunk>(part.chunk).read;
  stats_.events += read.lines.size();
  add_malformed(stats_, "bad_line", read.bad_lines);
  add_malformed(stats_, "long_line", read.long_lines);
}

// The code of a user who loses it makes as much room as it took.
JitSources::Room JitSources::make_room(std::uint32_t owner) {
  std::size_t all = 0;
  std::map<std::uint32_t, std::size_t> bytes_of;  // by payer
  for (const auto& [uid, bytes] : bytes_by_owner()) {
    all += bytes;
    bytes_of[owners_.owner_of(uid)] += bytes;
  }
  const auto left_of = [](std::size_t most, std::size_t used) {
    return most - std::min(most, used);
  };
  const std::size_t of_all = left_of(kMaxBytes, all);
  const std::uint32_t payer = owners_.owner_of(owner);
  if (of_all == 0 || payer == 0) return {.bytes = of_all};
  const std::size_t of_user = std::min(of_all, left_of(kMaxBytesOfUser, bytes_of[payer]));
  if (of_user == 0) return {.refusal = JitRefusal::kOverShare};
  std::size_t of_users = left_of(kMaxBytesOfUsers, all - bytes_of[0]);
  if (of_users == 0) {
    const auto loser = user_with_more(bytes_of, payer, std::size_t{0});
    if (!loser) return {.refusal = JitRefusal::kOverMemory};
    forget_code_of(*loser);
    of_users = bytes_of[*loser];
  }
  return {.bytes = std::min(of_user, of_users)};
}

void JitSources::forget_code_of(std::uint32_t payer) {
  const auto is_payers = [&](std::uint32_t owner) { return owners_.owner_of(owner) == payer; };
  maps_.forget_code_of(is_payers);
  for (const auto& [id, source] : sources_) {
    if (is_payers(id.owner) && !source->has_ended()) stop_reading(*source, JitRefusal::kOverShare);
  }
}

// The code that is known stays.
void JitSources::stop_reading(JitSource& source, JitRefusal reason) {
  source.end();
  stats_.refuse(reason, source.file()->owner());
  follower_.release(source.file()->file->id);
}

std::map<std::uint32_t, std::size_t> JitSources::bytes_by_owner() const {
  std::map<std::uint32_t, std::size_t> bytes = maps_.bytes_by_owner();
  for (const auto& [id, source] : sources_) bytes[id.owner] += source->memory_bytes();
  return bytes;
}

std::shared_ptr<JitSource> JitSources::end(const JitFileId& file) {
  const auto ended = sources_.extract(file);
  if (!ended) return nullptr;
  ended.mapped()->end();
  add_malformed(stats_, "foreign_pid", ended.mapped()->foreign_records());
  return ended.mapped();
}

void JitSources::release_unless(const std::set<const JitSource*>& in_use) {
  std::erase_if(sources_, [this, &in_use](const auto& entry) {
    if (in_use.contains(entry.second.get())) return false;
    add_malformed(stats_, "foreign_pid", entry.second->foreign_records());
    follower_.release(entry.first);
    return true;
  });
  maps_.forget_unused();
}

std::shared_ptr<const JitSourceFile> JitSources::file(std::uint16_t number) const {
  const auto known = files_.find(number);
  return known == files_.end() ? nullptr : known->second.lock();
}

void JitSources::add_to(JitStats& stats) const {
  for (const auto& [owner, bytes] : bytes_by_owner()) stats.bytes += bytes;
  for (const auto& [id, source] : sources_) {
    add_malformed(stats, "foreign_pid", source->foreign_records());
  }
  maps_.add_to(stats);
}

}  // namespace profd
