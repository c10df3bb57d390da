#include "collectors/interpreters/codes.h"

#include <algorithm>
#include <exception>
#include <set>
#include <string_view>
#include <utility>

#include <boost/unordered/unordered_flat_map.hpp>

namespace profd {
namespace {

// Of memory, upper bounds: a process without code; what a shared value takes beside itself; a file
// name beside its text.
constexpr std::size_t kProcessBytes = 512;
constexpr std::size_t kSharedBytes = 32;
constexpr std::size_t kFileNameBytes = 128;

std::size_t block_of(std::uint32_t number) { return (number - 1) / InterpretedTable::kBlock; }
std::size_t place_of(std::uint32_t number) { return (number - 1) % InterpretedTable::kBlock; }

// Never 0. Wraps around after 49 days: only differences count.
std::uint32_t milliseconds_of(InterpretedCodes::Clock::time_point time) {
  const auto since = std::chrono::duration_cast<std::chrono::milliseconds>(time.time_since_epoch());
  return static_cast<std::uint32_t>(since.count()) | 1U;
}

// Ids are keyed hashes.
struct IdIsHash {
  using is_avalanching = void;
  std::size_t operator()(std::uint64_t id) const noexcept { return id; }
};

using FileName = std::shared_ptr<const std::string>;

struct ByText {
  using is_transparent = void;
  static std::string_view text(std::string_view name) { return name; }
  static std::string_view text(const FileName& name) { return *name; }
  template <class A, class B>
  bool operator()(const A& a, const B& b) const {
    return text(a) < text(b);
  }
};

}  // namespace

KeptCode::KeptCode(const RawCode& code, std::shared_ptr<const std::string> file)
    : address_(code.address),
      first_line_(code.first_line),
      units_(code.units),
      kind_(code.kind),
      layout_(code.layout),
      cut_(code.cut),
      file_(std::move(file)) {
  std::size_t bytes = 0;
  for (std::size_t i = 0; i < code.texts.size(); ++i) {
    text_bytes_[i] = static_cast<std::uint16_t>(code.texts[i].bytes.size());
    text_kinds_[i] = code.texts[i].kind;
    if (i != PROFD_CODE_FILE) bytes += text_bytes_[i];
  }
  texts_.reserve(bytes);
  for (std::size_t i = 0; i < code.texts.size(); ++i) {
    if (i != PROFD_CODE_FILE) texts_ += code.texts[i].bytes;
  }
}

RawCode KeptCode::raw() const {
  RawCode code{.kind = kind_,
               .layout = layout_,
               .cut = cut_,
               .address = address_,
               .first_line = first_line_,
               .units = units_};
  std::string_view rest = texts_;
  for (std::size_t i = 0; i < code.texts.size(); ++i) {
    code.texts[i].kind = text_kinds_[i];
    if (i == PROFD_CODE_FILE) {
      if (file_) code.texts[i].bytes = *file_;
      continue;
    }
    code.texts[i].bytes = rest.substr(0, text_bytes_[i]);
    rest.remove_prefix(text_bytes_[i]);
  }
  return code;
}

const KeptCode* InterpretedTable::find(std::uint32_t number) const {
  if (number == 0 || number > size_) return nullptr;
  const std::shared_ptr<Block>& block = blocks_[block_of(number)];
  return block ? (*block)[place_of(number)].get() : nullptr;
}

std::uint32_t InterpretedTable::add() {
  if (size_ % kBlock == 0) blocks_.emplace_back();
  return ++size_;
}

void InterpretedTable::set(std::uint32_t number, std::shared_ptr<const KeptCode> code,
                           bool is_block_shared) {
  std::shared_ptr<Block>& block = blocks_[block_of(number)];
  if (!block) {
    block = std::make_shared<Block>(kBlock);
  } else if (is_block_shared) {
    block = std::make_shared<Block>(*block);
  }
  kind_ = static_cast<profd_runtime_kind>(code->raw().kind);
  (*block)[place_of(number)] = std::move(code);
}

struct InterpretedCodes::Parts {
  // An id that samples have, and that was not announced when it was last looked at.
  struct Unannounced {
    std::uint64_t id = 0;
    std::uint32_t number = 0;
    std::uint32_t since = 0;  // ms: it was noted, or asked for; 0: since the last tick
  };

  struct Process {
    std::uint64_t order = 0;  // of all processes: the later one of a pid has the higher one
    std::uint32_t user = 0;
    std::size_t bytes = 0;
    std::size_t codes = 0;
    std::shared_ptr<InterpretedTable> table = std::make_shared<InterpretedTable>();
    bool is_shared = false;
    std::vector<bool> shared_blocks{};  // those behind its end are not
    boost::unordered_flat_map<std::uint64_t, std::uint32_t, IdIsHash> numbers{};
    std::vector<Unannounced> unannounced{};
    std::set<FileName, ByText> files{};
  };
  using Processes = std::map<ProcessKey, Process>;

  Parts(UserRefusals* counter, ProcessUsers::IsGone gone)
      : refusals(counter), is_gone(std::move(gone)) {}

  [[nodiscard]] bool has_room(std::uint32_t user, std::size_t more) const;
  void charge(Process& process, std::size_t more);
  void discharge(const Process& process);
  void refuse(std::uint32_t user);
  [[nodiscard]] Process* find_or_add(const ProcessKey& key, std::uint32_t user);
  [[nodiscard]] static InterpretedTable& own_table(Process& process);
  [[nodiscard]] std::uint32_t number_of(Process& process, std::uint64_t id);
  [[nodiscard]] bool keep(Process& process, std::uint32_t number, const RawCode& code);
  void ask_again(Process& process, std::uint32_t now_ms, std::size_t& left);
  [[nodiscard]] bool has_ended(Processes::const_iterator process) const;

  UserRefusals* refusals;
  ProcessUsers::IsGone is_gone;
  InterpreterMaps* maps = nullptr;
  Processes processes{};
  // The process that was found last: the frames of a stack come in a row.
  ProcessKey last_key{};
  Process* last = nullptr;
  std::uint64_t next_order = 0;
  std::size_t bytes_of_users = 0;
  std::map<std::uint32_t, std::size_t> bytes_of_user{};      // not of root
  std::map<std::uint32_t, std::uint64_t> refused_of_user{};  // since the last tick
  ProcessKey last_asked{};
  CodeStats stats{};
};

bool InterpretedCodes::Parts::has_room(std::uint32_t user, std::size_t more) const {
  if (stats.bytes + more > kMaxBytes) return false;
  if (user == 0) return true;
  const auto own = bytes_of_user.find(user);
  return bytes_of_users + more <= kMaxBytesOfUsers &&
         (own == bytes_of_user.end() ? 0 : own->second) + more <= kMaxBytesOfUser;
}

void InterpretedCodes::Parts::charge(Process& process, std::size_t more) {
  if (process.user != 0) {
    bytes_of_user[process.user] += more;
    bytes_of_users += more;
  }
  process.bytes += more;
  stats.bytes += more;
}

void InterpretedCodes::Parts::discharge(const Process& process) {
  stats.bytes -= process.bytes;
  if (process.user == 0) return;
  bytes_of_users -= process.bytes;
  const auto own = bytes_of_user.find(process.user);
  own->second -= process.bytes;
  if (own->second == 0) bytes_of_user.erase(own);
}

void InterpretedCodes::Parts::refuse(std::uint32_t user) {
  ++stats.refused;
  if (user != 0) ++refused_of_user[user];
}

// Null: there is no room for another process.
InterpretedCodes::Parts::Process* InterpretedCodes::Parts::find_or_add(const ProcessKey& key,
                                                                       std::uint32_t user) {
  if (last != nullptr && last_key == key) return last;
  auto known = processes.find(key);
  if (known == processes.end()) {
    if (!has_room(user, kProcessBytes)) return nullptr;
    known = processes.try_emplace(key).first;
    known->second.order = next_order++;
    known->second.user = user;
    charge(known->second, kProcessBytes);
  }
  last_key = key;
  last = &known->second;
  return last;
}

// A table that workers have is copied, and is theirs from then on.
InterpretedTable& InterpretedCodes::Parts::own_table(Process& process) {
  if (process.is_shared) {
    process.table = std::make_shared<InterpretedTable>(*process.table);
    process.is_shared = false;
  }
  return *process.table;
}

// A new one counts as not announced until ask_again() finds its code: that may have had no room.
std::uint32_t InterpretedCodes::Parts::number_of(Process& process, std::uint64_t id) {
  if (const auto known = process.numbers.find(id); known != process.numbers.end()) {
    return known->second;
  }
  if (process.table->size() >= kMaxCodes || !has_room(process.user, kIdBytes)) return 0;
  const std::uint32_t number = own_table(process).add();
  process.numbers.emplace(id, number);
  charge(process, kIdBytes);
  process.unannounced.push_back({.id = id, .number = number});
  return number;
}

// False: there is no room for it.
bool InterpretedCodes::Parts::keep(Process& process, std::uint32_t number, const RawCode& code) {
  const RawText& text = code.texts[PROFD_CODE_FILE];
  FileName file;
  std::size_t more = 0;
  if (text.kind != PROFD_TEXT_ABSENT) {
    const auto known = process.files.find(text.bytes);
    if (known != process.files.end()) {
      file = *known;
    } else {
      file = std::make_shared<const std::string>(text.bytes);
      more += kFileNameBytes + file->size();
    }
  }
  const auto kept = std::make_shared<const KeptCode>(code, file);
  if (!has_room(process.user, more + kept->bytes() + kSharedBytes)) return false;
  if (more != 0) process.files.insert(file);
  const std::size_t block = block_of(number);
  const bool is_block_shared = block < process.shared_blocks.size() && process.shared_blocks[block];
  own_table(process).set(number, kept, is_block_shared);
  if (is_block_shared) process.shared_blocks[block] = false;
  charge(process, more + kept->bytes() + kSharedBytes);
  ++process.codes;
  ++stats.codes;
  return true;
}

// Those that were asked for go to the end, so that all have their turn.
void InterpretedCodes::Parts::ask_again(Process& process, std::uint32_t now_ms, std::size_t& left) {
  constexpr std::chrono::milliseconds kWait = kAskAgain;
  std::vector<Unannounced> asked;
  std::size_t kept = 0;
  for (Unannounced code : process.unannounced) {
    if (process.table->find(code.number) != nullptr) continue;
    if (code.since == 0) code.since = now_ms;
    if (left != 0 && now_ms - code.since >= static_cast<std::uint32_t>(kWait.count())) {
      --left;
      ++stats.asked_again;
      maps->ask_again(code.id);
      code.since = now_ms;
      asked.push_back(code);
    } else {
      process.unannounced[kept++] = code;
    }
  }
  process.unannounced.resize(kept);
  process.unannounced.insert(process.unannounced.end(), asked.begin(), asked.end());
  if (process.unannounced.empty()) process.unannounced.shrink_to_fit();
}

// A program that another one has replaced has ended too, though its pid is in use.
bool InterpretedCodes::Parts::has_ended(Processes::const_iterator process) const {
  if (is_gone(process->first)) return true;
  const std::uint32_t tgid = process->first.tgid;
  for (auto other = processes.lower_bound({.tgid = tgid});
       other != processes.end() && other->first.tgid == tgid; ++other) {
    if (other->second.order > process->second.order) return true;
  }
  return false;
}

InterpretedCodes::InterpretedCodes(UserRefusals* refusals, ProcessUsers::IsGone is_gone)
    : parts_(std::make_unique<Parts>(refusals, std::move(is_gone))) {}

InterpretedCodes::~InterpretedCodes() = default;

void InterpretedCodes::set_maps(InterpreterMaps* maps) { parts_->maps = maps; }

std::uint32_t InterpretedCodes::number_of(const ProcessKey& process, std::uint64_t id,
                                          std::uint32_t user) noexcept {
  try {
    Parts::Process* const known = parts_->find_or_add(process, user);
    const std::uint32_t number = known == nullptr ? 0 : parts_->number_of(*known, id);
    if (number == 0) parts_->refuse(user);
    return number;
  } catch (const std::exception&) {  // no memory
    ++parts_->stats.refused;
    return 0;
  }
}

void InterpretedCodes::on_code(const InterpretedCodeView& code, std::uint32_t user) noexcept {
  CodeStats& stats = parts_->stats;
  ++stats.announced;
  try {
    Parts::Process* const process = parts_->find_or_add(code.process, user);
    const std::uint32_t number = process == nullptr ? 0 : parts_->number_of(*process, code.id);
    if (number == 0) return parts_->refuse(user);
    if (process->table->find(number) != nullptr) {
      ++stats.repeated;
    } else if (!parts_->keep(*process, number, code.code)) {
      parts_->refuse(user);
    }
  } catch (const std::exception&) {  // no memory
    ++stats.refused;
  }
}

std::shared_ptr<const InterpretedTable> InterpretedCodes::share(const ProcessKey& process) {
  const auto known = parts_->processes.find(process);
  if (known == parts_->processes.end()) return nullptr;
  Parts::Process& shared = known->second;
  const std::uint32_t numbers = shared.table->size();
  shared.shared_blocks.assign(numbers == 0 ? 0 : block_of(numbers) + 1, true);
  shared.is_shared = true;
  return shared.table;
}

void InterpretedCodes::tick(Clock::time_point now) {
  Parts& parts = *parts_;
  for (const auto& [user, times] : std::exchange(parts.refused_of_user, {})) {
    if (parts.refusals != nullptr) parts.refusals->add(user, kRefused, times);
  }
  if (parts.maps == nullptr) return;
  const std::uint32_t now_ms = milliseconds_of(now);
  std::size_t left = kMaxAsked;
  auto process = parts.processes.upper_bound(parts.last_asked);
  for (std::size_t i = 0; i < parts.processes.size() && left != 0; ++i, ++process) {
    if (process == parts.processes.end()) process = parts.processes.begin();
    parts.ask_again(process->second, now_ms, left);
    parts.last_asked = process->first;
  }
}

void InterpretedCodes::forget_unless(const std::function<bool(const ProcessKey&)>& needed) {
  Parts& parts = *parts_;
  for (auto process = parts.processes.begin(); process != parts.processes.end();) {
    if (needed(process->first) || !parts.has_ended(process)) {
      ++process;
      continue;
    }
    parts.discharge(process->second);
    parts.stats.codes -= process->second.codes;
    if (parts.last == &process->second) parts.last = nullptr;
    process = parts.processes.erase(process);
  }
}

CodeStats InterpretedCodes::stats() const {
  CodeStats stats = parts_->stats;
  stats.processes = parts_->processes.size();
  return stats;
}

}  // namespace profd
