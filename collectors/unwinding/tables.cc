#include "collectors/unwinding/tables.h"

#include <algorithm>
#include <utility>

#include "collectors/bpf/record.h"

namespace profd {
namespace {

constexpr std::uint64_t kPieceBytes = std::uint64_t{1} << PROFD_PIECE_SHIFT;
// Evicting waits for the programs: then rather some more at once.
constexpr std::uint64_t kEvictedAtOnce = 16;  // one in so many of all words and entries
constexpr std::chrono::seconds kRetryInterval{1};
constexpr std::size_t kMaxInVain = 1024;
constexpr std::uint64_t kMaxEntriesPerFile = Pieces{}.size();

profd_table_key key_of(const FileKey& file, std::size_t piece) {
  return {.file = to_abi(file), .piece = static_cast<std::uint32_t>(piece), .reserved = 0};
}

std::uint64_t nanoseconds(std::chrono::nanoseconds time) {
  return static_cast<std::uint64_t>(time.count());
}

TableRefusal refusal_for(TableShortage shortage) {
  return shortage == TableShortage::kOfAll ? TableRefusal::kOverMemory : TableRefusal::kOverShare;
}

}  // namespace

Pieces pieces_of(std::uint64_t file_offset, std::uint64_t bytes, std::uint64_t file_bytes) {
  Pieces pieces;
  const std::uint64_t end =
      std::min({file_offset + bytes, file_bytes, std::uint64_t{pieces.size()} * kPieceBytes});
  for (std::uint64_t at = file_offset / kPieceBytes * kPieceBytes; at < end; at += kPieceBytes) {
    pieces.set(at / kPieceBytes);
  }
  return pieces;
}

UnwindTables::UnwindTables(std::unique_ptr<TableMaps> maps, const UnwindTablesLimits& limits)
    : limits_(limits),
      maps_(std::move(maps)),
      arenas_(*maps_, limits.max_bytes, limits.arena_words),
      rules_(maps_->rules()),
      budget_({.words = arenas_.words_in_all(), .entries = limits.max_entries}) {
  maps_->raise_generation();  // the programs ask for tables from the first one on
}

UnwindTables::State UnwindTables::state(const FileKey& file) const {
  const auto known = by_file_.find(file);
  if (known == by_file_.end()) return State::kUnknown;
  return known->second->refused ? State::kNone : State::kReady;
}

bool UnwindTables::share(const CodeFile& file, const std::string& content) {
  const auto known = by_name_.find(content);
  if (known == by_name_.end()) return false;
  known->second->since_ns = now_ns_;  // or it could be what has to go
  if (make_place(file.owner)) add_file(*known->second, file);
  return true;
}

std::optional<TableRefusal> UnwindTables::install(const CodeFile& file, const std::string& content,
                                                  const UnwindTableView& table) {
  if (by_file_.contains(file.key) || share(file, content)) return std::nullopt;
  if (!make_place(file.owner)) return TableRefusal::kOverMemory;
  Content made;
  made.name = content;
  made.owner = file.owner;
  if (const auto refusal = store(made, table)) return refusal;
  add_content(file, std::move(made));
  return std::nullopt;
}

std::optional<TableRefusal> UnwindTables::replace(const CodeFile& file, const std::string& content,
                                                  const UnwindTableView& table) {
  if (const auto known = by_file_.find(file.key); known != by_file_.end()) {
    const auto place =
        std::ranges::find(contents_, known->second, [](const Content& entry) { return &entry; });
    Contents gone;
    unpublish(*place);
    gone.splice(gone.end(), contents_, place);
    maps_->raise_generation();
    maps_->wait_for_running_programs();
    free_all(gone);
  }
  return install(file, content, table);
}

void UnwindTables::refuse(const CodeFile& file, TableRefusal reason) {
  if (by_file_.contains(file.key)) return;
  ++refused_[static_cast<std::size_t>(reason)];
  if (!make_place(file.owner)) return;
  Content none;
  none.owner = file.owner;
  none.refused = true;
  add_content(file, std::move(none));
}

void UnwindTables::forget(const FileKey& file) {
  const auto known = by_file_.find(file);
  if (known == by_file_.end() || !known->second->refused) return;
  const auto place =
      std::ranges::find(contents_, known->second, [](const Content& content) { return &content; });
  Contents gone;
  unpublish(*place);
  gone.splice(gone.end(), contents_, place);
  free_all(gone);
  maps_->raise_generation();
}

void UnwindTables::cover(const FileKey& file, const Pieces& pieces) {
  if (const auto known = by_file_.find(file); known != by_file_.end()) {
    add_entries(*known->second, file, pieces);
  }
}

void UnwindTables::add_content(const CodeFile& file, Content content) {
  content.since_ns = now_ns_;
  content.stays = file.stays;
  Content& added = contents_.emplace_back(std::move(content));
  if (!added.name.empty()) by_name_.emplace(added.name, &added);
  add_file(added, file);
}

// For one file more.
bool UnwindTables::make_place(std::uint32_t owner) {
  if (by_file_.size() < kMaxFiles) return true;
  const auto whose = owner == 0 ? TableShortage::kOfAll : TableShortage::kOfOthersThanRoot;
  return evict(owner, whose, {.words = 0, .entries = 1});
}

// Tables have all their pieces told at once: what else of the file may be mapped later is known
// then.
void UnwindTables::add_file(Content& content, const CodeFile& file) {
  if (!by_file_.emplace(file.key, &content).second) return;
  Pieces pieces = file.pieces;
  for (const PlacedPiece& piece : content.pieces) pieces.set(piece.number);
  content.entries.emplace(file.key, Pieces{});
  add_entries(content, file.key, pieces);
}

void UnwindTables::add_entries(Content& content, const FileKey& file, const Pieces& pieces) {
  const Pieces missing = pieces & ~content.entries.at(file);
  if (missing.none()) return;
  const TableUse use{.words = 0, .entries = missing.count()};
  content.since_ns = now_ns_;  // or it could be what has to go
  // Room is made by evicting others; where that can't be, stacks go on to come late.
  if (make_room(content.owner, use) != TableShortage::kNone) return;
  for (std::size_t number = 0; number < missing.size(); ++number) {
    if (!missing[number]) continue;
    const auto piece = std::ranges::find(content.pieces, number, &PlacedPiece::number);
    profd_table none{};
    none.state = PROFD_TABLE_NONE;
    // A map that is full, though we counted, is our own mistake: stacks come late then.
    (void)maps_->put(key_of(file, number), piece != content.pieces.end() ? piece->table : none);
  }
  content.entries.at(file) |= missing;
  budget_.add(content.owner, use);
  maps_->raise_generation();
}

std::optional<TableRefusal> UnwindTables::store(Content& content, const UnwindTableView& table) {
  TableUse use{.words = 0, .entries = table.pieces.size()};
  for (const UnwindPieceView& piece : table.pieces) {
    if (TableArenas::words_of(piece) > limits_.arena_words ||
        piece.header.piece >= kMaxEntriesPerFile) {
      return TableRefusal::kTooLarge;
    }
    use.words += TableArenas::words_of(piece);
  }
  if (table.rules.size() > limits_.max_rules_of_table) return TableRefusal::kTooLarge;
  if (const auto shortage = make_room(content.owner, use); shortage != TableShortage::kNone) {
    return refusal_for(shortage);
  }
  if (const auto refusal = take_rules(content, table)) return refusal;
  if (!place(content, table)) {
    rules_.release(content.rules);
    return TableRefusal::kOverMemory;
  }
  budget_.add(content.owner, {.words = use.words, .entries = 0});
  for (std::size_t i = 0; i < table.pieces.size(); ++i) {
    arenas_.write(content.pieces[i], table.pieces[i], content.rules);
    content.rows += table.pieces[i].rows.size();
  }
  return std::nullopt;
}

// A rule is free when the last table that has it is gone.
std::optional<TableRefusal> UnwindTables::take_rules(Content& content,
                                                     const UnwindTableView& table) {
  auto rules = rules_.acquire(table.rules, content.owner);
  while (!rules) {
    const TableShortage shortage = rules_.shortage(table.rules, content.owner);
    if (!evict(content.owner, shortage, {.words = 0, .entries = 1})) return refusal_for(shortage);
    rules = rules_.acquire(table.rules, content.owner);
  }
  content.rules = std::move(*rules);
  return std::nullopt;
}

// Gaps may be too small although they add up: then some more goes, of the owner's own first.
std::optional<ArenaBlock> UnwindTables::take_block(std::uint32_t owner, std::uint64_t words) {
  auto block = arenas_.take(words);
  for (const TableShortage whose :
       {TableShortage::kOfOwner, TableShortage::kOfOthersThanRoot, TableShortage::kOfAll}) {
    if (owner == 0 && whose != TableShortage::kOfAll) continue;
    while (!block && evict(owner, whose, {.words = words, .entries = 0})) {
      block = arenas_.take(words);
    }
  }
  return block;
}

// All pieces or none.
bool UnwindTables::place(Content& content, const UnwindTableView& table) {
  for (const UnwindPieceView& view : table.pieces) {
    const auto block = take_block(content.owner, TableArenas::words_of(view));
    const auto piece = block ? arenas_.place(view, *block) : std::nullopt;
    if (!piece) {
      for (const PlacedPiece& placed : content.pieces) arenas_.give_back(placed);
      content.pieces.clear();
      return false;
    }
    content.pieces.push_back(*piece);
  }
  return true;
}

TableShortage UnwindTables::make_room(std::uint32_t owner, const TableUse& more) {
  TableShortage shortage = budget_.shortage(owner, more);
  while (shortage != TableShortage::kNone && evict(owner, shortage, more)) {
    shortage = budget_.shortage(owner, more);
  }
  return shortage;
}

// Takes the coldest away until as much is free as is asked for, and a good part more. False when
// none is cold. A look at all of them is dear, and who maps files by the thousands must not make us
// take one for each: after one in vain there is no other for a while.
bool UnwindTables::evict(std::uint32_t owner, TableShortage shortage, const TableUse& more) {
  const std::uint64_t words = std::max(more.words, arenas_.words_in_all() / kEvictedAtOnce);
  const std::uint64_t entries = more.words != 0 || more.entries == 0
                                    ? more.entries
                                    : std::max(more.entries, limits_.max_entries / kEvictedAtOnce);
  const auto whose = std::pair(shortage, shortage == TableShortage::kOfOwner ? owner : 0);
  if (const auto vain = in_vain_ns_.find(whose);
      vain != in_vain_ns_.end() && now_ns_ < vain->second + nanoseconds(kRetryInterval)) {
    return false;
  }
  Contents gone;
  TableUse freed;
  for (const Contents::iterator content : coldest_first(owner, shortage)) {
    const bool enough_words = more.words == 0 || freed.words >= words;
    if (enough_words && freed.entries >= entries) break;
    for (const auto& [file, told] : content->entries) freed.entries += told.count();
    for (const PlacedPiece& piece : content->pieces) freed.words += piece.block.words;
    unpublish(*content);
    gone.splice(gone.end(), contents_, content);
  }
  if (gone.empty()) {
    if (in_vain_ns_.size() >= kMaxInVain) in_vain_ns_.clear();
    in_vain_ns_[whose] = now_ns_;
    return false;
  }
  maps_->raise_generation();
  maps_->wait_for_running_programs();
  evicted_ += gone.size();
  free_all(gone);
  return true;
}

std::vector<UnwindTables::Contents::iterator> UnwindTables::coldest_first(std::uint32_t owner,
                                                                          TableShortage shortage) {
  std::vector<std::pair<std::uint64_t, Contents::iterator>> cold;
  for (auto content = contents_.begin(); content != contents_.end(); ++content) {
    if (content->stays) continue;
    if (shortage == TableShortage::kOfOwner && content->owner != owner) continue;
    if (shortage == TableShortage::kOfOthersThanRoot && content->owner == 0) continue;
    const std::uint64_t used_ns = last_used_ns(*content);
    if (used_ns + nanoseconds(kHot) <= now_ns_) cold.emplace_back(used_ns, content);
  }
  std::ranges::sort(cold, {}, [](const auto& entry) { return entry.first; });
  std::vector<Contents::iterator> ordered;
  ordered.reserve(cold.size());
  for (const auto& entry : cold) ordered.push_back(entry.second);
  return ordered;
}

std::uint64_t UnwindTables::last_used_ns(const Content& content) const {
  std::uint64_t last = content.since_ns;
  for (const auto& [file, entries] : content.entries) {
    for (std::size_t number = 0; number < entries.size(); ++number) {
      if (entries[number]) last = std::max(last, maps_->used_ns(key_of(file, number)));
    }
  }
  return last;
}

// From the next generation on no program finds the content.
void UnwindTables::unpublish(const Content& content) {
  for (const auto& [file, entries] : content.entries) {
    for (std::size_t number = 0; number < entries.size(); ++number) {
      if (entries[number]) maps_->erase(key_of(file, number));
    }
    by_file_.erase(file);
  }
  if (!content.name.empty()) by_name_.erase(content.name);
}

void UnwindTables::free_all(Contents& gone) {
  for (const Content& content : gone) {
    TableUse use;
    for (const auto& [file, entries] : content.entries) use.entries += entries.count();
    for (const PlacedPiece& piece : content.pieces) {
      use.words += piece.block.words;
      arenas_.give_back(piece);
    }
    rules_.release(content.rules);
    budget_.remove(content.owner, use);
  }
}

const PlacedPiece* UnwindTables::find_piece(const FileKey& file, std::uint64_t offset) const {
  const auto known = by_file_.find(file);
  if (known == by_file_.end()) return nullptr;
  const auto& pieces = known->second->pieces;
  const auto piece = std::ranges::find(pieces, offset >> PROFD_PIECE_SHIFT, &PlacedPiece::number);
  return piece == pieces.end() ? nullptr : &*piece;
}

profd_rule UnwindTables::find_rule(const FileKey& file, std::uint64_t offset) const {
  const PlacedPiece* piece = find_piece(file, offset);
  const auto within = static_cast<std::uint32_t>(offset & (kPieceBytes - 1));
  const auto rule = piece != nullptr ? arenas_.find_rule(*piece, within) : std::nullopt;
  if (!rule) return rules_[PROFD_RULE_INDEX_UNKNOWN];
  if ((*rule & PROFD_RULE_IN_DICTIONARY) == 0) return decode_inline_rule(*rule);
  return rules_[*rule & ~PROFD_RULE_IN_DICTIONARY];
}

void UnwindTables::tick(std::uint64_t now_ns) {
  now_ns_ = now_ns;
  if (now_ns < next_refresh_ns_) return;
  next_refresh_ns_ = now_ns + nanoseconds(kRefreshInterval);
  maps_->raise_generation();
}

void UnwindTables::add_to(UnwindStats& stats) const {
  stats.tables = by_name_.size();
  for (const Content& content : contents_) {
    stats.rows += content.rows;
    if (!content.refused) stats.files += content.entries.size();
  }
  stats.bytes = arenas_.bytes_taken();
  stats.arena_bytes = arenas_.arena_bytes();
  stats.cap_bytes = limits_.max_bytes;
  stats.rules = rules_.size();
  stats.evicted = evicted_;
  stats.refused = refused_;
}

}  // namespace profd
