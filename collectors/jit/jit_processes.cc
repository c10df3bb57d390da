#include "collectors/jit/jit_processes.h"

#include <signal.h>
#include <time.h>

#include <algorithm>
#include <bitset>
#include <cerrno>
#include <set>
#include <string_view>
#include <utility>

#include "collectors/jit/directory_watch.h"
#include "collectors/jit/tsc_clock.h"

namespace profd {
namespace {

using Clock = JitProcesses::Clock;

// Of a generation's number: 10,000 records a second for three years.
constexpr unsigned kSerialBits = 40;
constexpr std::size_t kMaxSources = 60'000;
constexpr std::size_t kMaxUids = 16'384;
constexpr std::chrono::seconds kLifeInterval{1};
constexpr std::chrono::seconds kMaxRowsInterval{8};
constexpr std::uint64_t kMarkerBytes = 4096;
// Of one process: a program can map what it likes.
constexpr std::size_t kMaxFilesOfProcess = 16;

struct KeyHash {
  using is_avalanching = void;
  std::size_t operator()(const ProcessKey& key) const noexcept {
    std::uint64_t hash =
        (key.start_ns ^ std::uint64_t{key.tgid} << 32 ^ key.exec_id) * 0x9e3779b97f4a7c15ULL;
    hash ^= hash >> 32;
    return static_cast<std::size_t>(hash * 0x9e3779b97f4a7c15ULL);
  }
};

// Memory that a process wrote code into: without a file, or with one that lives in memory. And what
// looks like a runtime's marker.
bool may_be_of_jit(const MappingView& mapping) {
  if (mapping.kind == PROFD_MAPPING_ANONYMOUS) return true;
  if (mapping.kind != PROFD_MAPPING_FILE) return false;
  for (const std::string_view name : {"memfd:", "zero", "SYSV", "jit-"}) {
    if (mapping.names.starts_with(name)) return true;
  }
  return mapping.file_offset == 0 && mapping.end - mapping.start <= kMarkerBytes;
}

bool is_gone(const ProcessKey& process) {
  return ::kill(static_cast<pid_t>(process.tgid), 0) != 0 && errno == ESRCH;
}

// A process's start in the clock of samples.
std::uint64_t monotonic_start_ns(const ProcessKey& process) {
  timespec boot{};
  timespec monotonic{};
  ::clock_gettime(CLOCK_BOOTTIME, &boot);
  ::clock_gettime(CLOCK_MONOTONIC, &monotonic);
  const std::int64_t asleep =
      (boot.tv_sec - monotonic.tv_sec) * 1'000'000'000 + (boot.tv_nsec - monotonic.tv_nsec);
  return process.start_ns - static_cast<std::uint64_t>(asleep);
}

}  // namespace

class JitProcesses::State {
 public:
  explicit State(JitFollower& follower) : follower_(follower) {}

  struct Process {
    JitProcessFacts facts;
    std::vector<std::shared_ptr<JitTeller>> tellers;
    std::vector<JitLayer> layers;           // its own first
    std::bitset<kJitRefusalCount> refused;  // counted once each
    std::uint64_t rows_given = 0;           // MadeCodeRows::changes() of all layers
    std::set<std::uint32_t> regions;        // that rows were given of
    Clock::time_point next_rows{};
    Clock::duration rows_interval = kLifeInterval;
    bool is_gone = false;
    bool is_looked_for = false;  // now
    Clock::time_point next_look{};
    Clock::duration interval = kFirstLook;
  };

  void on_process(const ProcessView& view);
  void on_mapping(const MappingView& mapping);
  void on(const JitProcessSeen& seen);
  void on(const JitFileSeen& seen);
  void on(const JitFileGrew& grew);
  void on(const JitFileEnded& ended);
  void look_again(Clock::time_point now);
  void give_rows(const TakeRows& take_rows, Clock::time_point now);
  // Ends the code of those that have died since it was asked last, once all is read.
  void look_who_lives(Clock::time_point now);
  void end_dead(std::uint64_t read_ticket);

  [[nodiscard]] const Process* find(const ProcessKey& key) const;
  [[nodiscard]] std::shared_ptr<const JitNumberedSource> source(std::uint16_t number) const;
  void forget_unless(const std::function<bool(const ProcessKey&)>& needed);
  void add_to(JitStats& stats) const;

 private:
  using Processes = boost::unordered_flat_map<ProcessKey, std::unique_ptr<Process>, KeyHash>;
  struct Dead {
    std::uint64_t ticket = 0;
    std::vector<ProcessKey> processes;
  };

  void look(const ProcessKey& key, Process& process);
  void attach(const ProcessKey& key, Process& process, const std::shared_ptr<const JitFile>& file,
              bool is_shared);
  void link(const ProcessKey& key, Process& process, JitTeller& teller);
  void inherit(const ProcessKey& key, Process& process);
  void add_layer(Process& process, JitLayer layer) const;
  std::shared_ptr<JitTeller> teller_of(const std::shared_ptr<const JitFile>& file);
  std::shared_ptr<JitSpace> make_space(std::uint32_t owner);
  void count_damage(const JitFileGrew& grew);
  void weigh(JitTeller& teller);
  [[nodiscard]] std::size_t bytes_of(std::optional<std::uint32_t> owner) const;
  void refuse(JitRefusal reason) { ++stats_.refused[static_cast<std::size_t>(reason)]; }

  JitFollower& follower_;
  TscClock tsc_;
  Processes processes_;
  boost::unordered_flat_map<ProcessKey, std::uint32_t, KeyHash> uids_;
  std::map<JitFileId, std::shared_ptr<JitTeller>> files_;
  std::map<std::uint16_t, std::weak_ptr<const JitNumberedSource>> sources_;
  std::vector<std::weak_ptr<JitSpace>> spaces_;
  std::vector<Dead> dead_;
  std::uint16_t last_source_ = 0;
  std::uint32_t last_space_ = 0;
  Clock::time_point looked_who_lives_{};
  JitStats stats_;
};

void JitProcesses::State::on_process(const ProcessView& view) {
  if (uids_.size() >= kMaxUids) uids_.clear();
  uids_.insert_or_assign(view.process, view.uid);
}

void JitProcesses::State::on_mapping(const MappingView& mapping) {
  if (!may_be_of_jit(mapping) || processes_.contains(mapping.process)) return;
  if (processes_.size() >= kMaxProcesses) {
    refuse(JitRefusal::kQueueFull);
    return;
  }
  look(mapping.process,
       *processes_.emplace(mapping.process, std::make_unique<Process>()).first->second);
}

void JitProcesses::State::look(const ProcessKey& key, Process& process) {
  if (process.is_looked_for || process.is_gone) return;
  const auto uid = uids_.find(key);
  process.is_looked_for = follower_.look(key, uid == uids_.end() ? 0 : uid->second);
  if (!process.is_looked_for) refuse(JitRefusal::kQueueFull);
  process.next_look = Clock::now() + process.interval;
  process.interval = std::min<Clock::duration>(2 * process.interval, kLastLook);
}

void JitProcesses::State::on(const JitProcessSeen& seen) {
  const auto known = processes_.find(seen.process);
  if (known == processes_.end()) return;
  Process& process = *known->second;
  process.is_looked_for = false;
  process.is_gone = seen.look.is_gone;
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

void JitProcesses::State::on(const JitFileSeen& seen) {
  for (auto& [key, process] : processes_) {
    const bool is_named = process->facts.pid_in_space == seen.pid || key.tgid == seen.pid;
    if (is_named && process->tellers.empty()) look(key, *process);
  }
}

std::shared_ptr<JitTeller> JitProcesses::State::teller_of(
    const std::shared_ptr<const JitFile>& file) {
  std::shared_ptr<JitTeller>& teller = files_[file->id];
  if (teller) return teller;
  std::erase_if(sources_, [](const auto& entry) { return entry.second.expired(); });
  if (sources_.size() >= kMaxSources) {
    files_.erase(file->id);
    return nullptr;
  }
  while (sources_.contains(last_source_)) ++last_source_;
  teller = std::make_shared<JitTeller>();
  teller->told = std::make_shared<JitNumberedSource>(
      JitNumberedSource{.number = last_source_, .source = {.file = file, .state = {}}});
  sources_.emplace(last_source_, teller->told);
  return teller;
}

std::shared_ptr<JitSpace> JitProcesses::State::make_space(std::uint32_t owner) {
  auto space = std::make_shared<JitSpace>(++last_space_, owner);
  spaces_.push_back(space);
  return space;
}

void JitProcesses::State::attach(const ProcessKey& key, Process& process,
                                 const std::shared_ptr<const JitFile>& file, bool is_shared) {
  const std::shared_ptr<JitTeller> teller = teller_of(file);
  if (std::ranges::find(process.tellers, teller) != process.tellers.end()) return;
  if (!teller) return refuse(JitRefusal::kQueueFull);
  if (process.tellers.size() >= kMaxFilesOfProcess) return refuse(JitRefusal::kOverShare);
  // Once records went to single processes they stay there.
  if (teller->spaces.empty()) teller->is_shared = is_shared && teller->is_dump();
  process.tellers.push_back(teller);
  link(key, process, *teller);
}

// What of a file's code is the process's.
void JitProcesses::State::link(const ProcessKey& key, Process& process, JitTeller& teller) {
  const std::uint32_t own = teller.place_of(
      process.is_gone && process.facts.pid_in_space == 0 ? key.tgid : process.facts.pid_in_space);
  std::shared_ptr<JitSpace>& space = teller.spaces[own];
  if (!space) {
    space = make_space(teller.file().owner);
    space->told_by.push_back(teller.told);
  }
  add_layer(process, {.space = space});
  const std::uint32_t writer = teller.place_of(teller.state().pid);
  const auto of_writer = teller.spaces.find(writer);
  // Who has another one's file mapped was forked by it.
  if (teller.state().header_read && writer != own && of_writer != teller.spaces.end()) {
    add_layer(process, {.space = of_writer->second, .until_ns = monotonic_start_ns(key)});
  }
}

void JitProcesses::State::add_layer(Process& process, JitLayer layer) const {
  const bool is_known = std::ranges::any_of(
      process.layers, [&layer](const JitLayer& known) { return known.space == layer.space; });
  if (is_known) return;
  const auto place = std::ranges::find_if(
      process.layers, [&layer](const JitLayer& known) { return known.until_ns < layer.until_ns; });
  process.layers.insert(place, std::move(layer));
}

// From a parent that has not called exec since, as far as the kernel's own count tells.
void JitProcesses::State::inherit(const ProcessKey& key, Process& process) {
  if (process.facts.parent == 0) return;
  for (const auto& [other, parent] : processes_) {
    if (other.tgid != process.facts.parent || other.exec_id != key.exec_id ||
        other.start_ns > key.start_ns) {
      continue;
    }
    const std::uint64_t start = monotonic_start_ns(key);
    for (const JitLayer& layer : parent->layers) {
      add_layer(process, {.space = layer.space, .until_ns = std::min(layer.until_ns, start)});
    }
  }
}

void JitProcesses::State::on(const JitFileGrew& grew) {
  count_damage(grew);
  const auto known = files_.find(grew.file->id);
  if (known == files_.end() || known->second->is_full) return;
  JitTeller& teller = *known->second;
  const bool had_header = teller.state().header_read;
  const auto tsc = tsc_.conversion();
  const std::uint64_t foreign = take_up(teller, grew, tsc ? &*tsc : nullptr, [this, &teller] {
    return make_space(teller.file().owner);
  });
  if (foreign != 0) {
    refuse(JitRefusal::kForeignPid);
    stats_.damaged["foreign_pid"] += foreign;
  }
  weigh(teller);
  if (had_header || !teller.state().header_read) return;
  for (auto& [key, process] : processes_) {
    if (std::ranges::find(process->tellers, known->second) != process->tellers.end()) {
      link(key, *process, teller);
    }
  }
}

void JitProcesses::State::count_damage(const JitFileGrew& grew) {
  if (const auto* dump = std::get_if<JitDumpChunk>(&grew.chunk)) {
    stats_.events += dump->read.events.size();
    for (std::size_t i = 0; i < kJitDumpDamages; ++i) {
      const std::uint64_t count = dump->read.damage[i];
      if (count == 0) continue;
      std::string reason(name_of(static_cast<JitDumpDamage>(i)));
      std::ranges::replace(reason, '-', '_');
      stats_.damaged[reason] += count;
    }
    return;
  }
  const PerfMapLines& read = std::get<PerfMapChunk>(grew.chunk).read;
  stats_.events += read.lines.size();
  if (read.bad_lines != 0) stats_.damaged["bad_line"] += read.bad_lines;
  if (read.long_lines != 0) stats_.damaged["long_line"] += read.long_lines;
}

// A file that tells more than fits is not read on; what it told stays.
void JitProcesses::State::weigh(JitTeller& teller) {
  for (const auto& [pid, space] : teller.spaces) space->bytes = space->index.memory_bytes();
  const std::uint32_t owner = teller.file().owner;
  const bool is_over = bytes_of(std::nullopt) > kMaxBytes;
  if (!is_over && (owner == 0 || bytes_of(owner) <= kMaxBytesOfUser)) return;
  teller.is_full = true;
  refuse(is_over ? JitRefusal::kOverMemory : JitRefusal::kOverShare);
  follower_.let_go(teller.file().id);
}

std::size_t JitProcesses::State::bytes_of(std::optional<std::uint32_t> owner) const {
  std::size_t bytes = 0;
  for (const std::weak_ptr<JitSpace>& entry : spaces_) {
    const auto space = entry.lock();
    if (space && (!owner || space->owner == *owner)) bytes += space->bytes;
  }
  return bytes;
}

// Found again later it is another file; what the old one told stays.
void JitProcesses::State::on(const JitFileEnded& ended) {
  const auto known = files_.find(ended.file);
  if (known == files_.end()) return;
  if (ended.reason == JitRefusal::kMalformed && !known->second->state().header_read) {
    for (auto& [key, process] : processes_) std::erase(process->tellers, known->second);
  }
  files_.erase(known);
}

void JitProcesses::State::look_again(Clock::time_point now) {
  for (auto& [key, process] : processes_) {
    if (now >= process->next_look) look(key, *process);
  }
}

// The programs have to look everything up again after each change: where it goes on, they come the
// more rarely.
void JitProcesses::State::give_rows(const TakeRows& take_rows, Clock::time_point now) {
  for (auto& [key, process] : processes_) {
    std::uint64_t changes = 0;
    for (const JitLayer& layer : process->layers) changes += layer.space->rows.changes();
    if (process->is_gone || now < process->next_rows) continue;
    if (changes == process->rows_given) {
      process->rows_interval = kLifeInterval;
      continue;
    }
    process->rows_given = changes;
    process->next_rows = now + process->rows_interval;
    process->rows_interval =
        std::min<Clock::duration>(2 * process->rows_interval, kMaxRowsInterval);
    MadeCodeRows rows = process->layers.front().space->rows;
    for (const JitLayer& layer : process->layers) rows.add_missing(layer.space->rows);
    std::map<std::uint32_t, std::string> tables = rows.tables();
    for (const std::uint32_t region : process->regions) {
      if (auto none = UnwindTableWriter().encode()) tables.try_emplace(region, std::move(*none));
    }
    for (const auto& [region, table] : tables) {
      take_rows(key, process->facts.uid, region, table);
      process->regions.insert(region);
    }
  }
}

void JitProcesses::State::look_who_lives(Clock::time_point now) {
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

void JitProcesses::State::end_dead(std::uint64_t read_ticket) {
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

const JitProcesses::State::Process* JitProcesses::State::find(const ProcessKey& key) const {
  const auto known = processes_.find(key);
  return known == processes_.end() ? nullptr : known->second.get();
}

std::shared_ptr<const JitNumberedSource> JitProcesses::State::source(std::uint16_t number) const {
  const auto known = sources_.find(number);
  return known == sources_.end() ? nullptr : known->second.lock();
}

void JitProcesses::State::forget_unless(const std::function<bool(const ProcessKey&)>& needed) {
  boost::unordered::erase_if(processes_, [&needed](const auto& entry) {
    return (entry.second->is_gone || is_gone(entry.first)) && !needed(entry.first);
  });
  std::set<const JitTeller*> in_use;
  for (const auto& [key, process] : processes_) {
    for (const auto& teller : process->tellers) in_use.insert(teller.get());
  }
  std::erase_if(files_, [this, &in_use](const auto& entry) {
    if (in_use.contains(entry.second.get())) return false;
    follower_.let_go(entry.first);
    return true;
  });
  std::erase_if(spaces_, [](const auto& space) { return space.expired(); });
}

void JitProcesses::State::add_to(JitStats& stats) const {
  stats = stats_;
  for (const auto& [key, process] : processes_) stats.processes += !process->tellers.empty();
  for (const std::weak_ptr<JitSpace>& entry : spaces_) {
    const auto space = entry.lock();
    if (!space) continue;
    stats.functions += space->index.functions();
    stats.bytes += space->bytes;
    for (const std::uint64_t lost : space->index.losses()) stats.forgotten += lost;
  }
}

JitProcesses::JitProcesses(std::unique_ptr<JitFollower> follower)
    : follower_(std::move(follower)), state_(std::make_unique<State>(*follower_)) {}

JitProcesses::~JitProcesses() = default;

Result<std::unique_ptr<JitProcesses>> JitProcesses::start(const JitOptions& options) {
  std::vector<std::string> directories = {kHostTmp, "/tmp"};
  std::ranges::copy(options.directories, std::back_inserter(directories));
  auto follower = JitFollower::start(std::move(directories));
  if (!follower) return follower.error();
  return std::unique_ptr<JitProcesses>(new JitProcesses(std::move(*follower)));
}

void JitProcesses::on_process(const ProcessView& process) noexcept {
  try {
    state_->on_process(process);
  } catch (const std::exception&) {  // no memory: root's files alone are taken for its own
  }
}

void JitProcesses::on_mapping(const MappingView& mapping) noexcept {
  try {
    state_->on_mapping(mapping);
  } catch (const std::exception&) {  // no memory: its code stays without names
  }
}

void JitProcesses::poll(Clock::time_point now) {
  for (const JitNews& news : follower_->take()) {
    if (const auto* done = std::get_if<JitReadOn>(&news)) {
      read_ticket_ = done->ticket;
      state_->end_dead(read_ticket_);
    } else {
      std::visit(
          [this](const auto& of_one_kind) {
            using Kind = std::decay_t<decltype(of_one_kind)>;
            if constexpr (!std::is_same_v<Kind, JitReadOn>) state_->on(of_one_kind);
          },
          news);
    }
  }
  state_->look_who_lives(now);
  if (take_rows_) state_->give_rows(take_rows_, now);
}

void JitProcesses::give_rows_to(TakeRows take_rows) { take_rows_ = std::move(take_rows); }

std::optional<JitFunction> JitProcesses::at(const ProcessKey& process, std::uint64_t address,
                                            std::uint64_t time_ns) {
  const State::Process* const known = state_->find(process);
  if (known == nullptr) return std::nullopt;
  const auto answer = find_in_layers(known->layers, address, time_ns);
  if (!answer) return std::nullopt;
  return JitFunction{
      .generation = std::uint64_t{answer->space} << kSerialBits | answer->code.serial,
      .code = answer->code};
}

bool JitProcesses::is_final(const ProcessKey& process, std::uint64_t time_ns) const {
  const State::Process* const known = state_->find(process);
  if (known == nullptr) return true;
  if (known->layers.empty()) return known->is_gone;
  return std::ranges::all_of(known->layers, [time_ns](const JitLayer& layer) {
    return layer.space->index.is_final(std::min(time_ns, layer.until_ns - 1));
  });
}

bool JitProcesses::knows(const ProcessKey& process) const {
  const State::Process* const known = state_->find(process);
  return known != nullptr && !known->layers.empty();
}

std::optional<JitSource> JitProcesses::source_of(const JitCode& code) const {
  const auto numbered = state_->source(code.source);
  if (!numbered || numbered->source.file->kind != JitFileKind::kJitDump) return std::nullopt;
  return numbered->source;
}

std::optional<JitProcessInfo> JitProcesses::info(const ProcessKey& process) const {
  const State::Process* const known = state_->find(process);
  if (known == nullptr) return std::nullopt;
  JitProcessInfo info{.file = {}, .is_gone = known->is_gone};
  if (!known->tellers.empty()) {
    info.file = known->tellers.front()->file().path;
    info.kind = known->tellers.front()->file().kind;
  }
  for (const JitLayer& layer : known->layers) info.functions += layer.space->index.functions();
  return info;
}

std::uint64_t JitProcesses::read_on(std::vector<ProcessKey> processes) {
  return follower_->read_on(std::move(processes));
}

void JitProcesses::forget_unless(const std::function<bool(const ProcessKey&)>& needed) {
  state_->forget_unless(needed);
}

JitStats JitProcesses::stats() const {
  JitStats stats;
  state_->add_to(stats);
  follower_->add_to(stats);
  return stats;
}

}  // namespace profd
