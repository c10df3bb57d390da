#include "collectors/unwinding/tables.h"

#include <algorithm>

#include "collectors/bpf/record.h"
#include "collectors/unwinding/nanoseconds.h"

namespace profd {
namespace {

constexpr std::uint64_t kRegionBytes = std::uint64_t{1} << PROFD_FILE_REGION_SHIFT;
// What is evicted is free only after a grace period, so it is at least 1/16 of all words and
// entries.
constexpr std::uint64_t kMinEvictedShare = 16;
constexpr std::chrono::seconds kRetryInterval{1};
constexpr std::size_t kMaxFailedEvictions = 1024;
constexpr std::chrono::milliseconds kScanInterval{100};
constexpr std::size_t kTablesOfScan = 128;  // to forget so many takes 4 ms
constexpr std::size_t kFlood = 256;         // files; less are not worth new memory
// Of the tables that a scan checks: each takes a system call, and another one to forget it.
constexpr std::size_t kEntriesOfScan = 256;
constexpr TableUse kOneEntry{.words = 0, .entries = 1};
constexpr std::uint64_t kMaxEntriesPerFile = FileRegions{}.size();

profd_table_key key_of(const FileKey& file, std::size_t region) {
  return {.file = to_abi(file), .region = static_cast<std::uint32_t>(region), .reserved = 0};
}

template <class RegionsOfFiles, class Action>
void for_each_key(const RegionsOfFiles& entries, Action action) {
  for (const auto& [file, regions] : entries) {
    for (std::size_t region = 0; region < regions.size(); ++region) {
      if (regions[region]) action(key_of(file, region));
    }
  }
}

}  // namespace

FileRegions regions_of(std::uint64_t file_offset, std::uint64_t bytes, std::uint64_t file_bytes) {
  FileRegions regions;
  const std::uint64_t end =
      std::min({file_offset + bytes, file_bytes, std::uint64_t{regions.size()} * kRegionBytes});
  for (std::uint64_t at = file_offset / kRegionBytes * kRegionBytes; at < end; at += kRegionBytes) {
    regions.set(at / kRegionBytes);
  }
  return regions;
}

UnwindTables::SharedTable::SharedTable(const SharedTable& other, std::pmr::memory_resource* memory)
    : content(other.content, memory),
      payer(other.payer),
      refusal(other.refusal),
      pinned(other.pinned),
      runtime(other.runtime),
      process(other.process),
      changed_ns(other.changed_ns),
      next_check_ns(other.next_check_ns),
      rows(other.rows),
      regions(other.regions, memory),
      rules(other.rules, memory),
      entries(other.entries, memory) {}

UnwindTables::UnwindTables(std::unique_ptr<TableMaps> maps, const UnwindTablesLimits& limits,
                           ProcessUsers::IsGone is_gone, OnRemoved on_removed)
    : limits_(limits),
      maps_(std::move(maps)),
      is_gone_(std::move(is_gone)),
      on_removed_(std::move(on_removed)),
      arenas_(*maps_, limits.max_bytes, limits.arena_words),
      rules_(maps_->rules()),
      budget_({.words = arenas_.words_in_all(), .entries = limits.max_entries}) {
  maps_->raise_generation();  // from 0: the programs use tables from now on
}

UnwindTables::State UnwindTables::state(const FileKey& file) const {
  const auto known = known_->by_file.find(file);
  if (known == known_->by_file.end()) return State::kUnknown;
  return known->second->refusal ? State::kNone : State::kReady;
}

std::optional<UnwindTables::Refusal> UnwindTables::refusal_of(const FileKey& file) const {
  const auto known = known_->by_file.find(file);
  return known == known_->by_file.end() ? std::nullopt : known->second->refusal;
}

bool UnwindTables::share(const MappedCode& file, const std::string& content) {
  const auto known = known_->by_content.find(content);
  if (known == known_->by_content.end()) return false;
  known->second->changed_ns = now_ns_;  // keeps make_room_for_file() from evicting it
  take_over(*known->second, file.payer);
  const bool has_room = make_room_for_file(file.payer);
  // Also a table in use is evicted for others from a user over the share.
  const auto kept = known_->by_content.find(content);
  if (kept == known_->by_content.end()) return false;
  if (kept->second->runtime == 0) kept->second->runtime = file.runtime;
  if (has_room) add_file(kept->second, file);
  return true;
}

std::optional<TableRefusal> UnwindTables::install(const MappedCode& file,
                                                  const std::string& content,
                                                  const UnwindTableView& table) {
  if (known_->by_file.contains(file.key) || share(file, content)) return std::nullopt;
  if (!make_room_for_file(file.payer)) return refusal_for(file.payer, kOneEntry);
  SharedTable shared(content, file.payer, &known_->memory);
  if (const auto refusal = store(shared, table)) return refusal;
  add_table(file, std::move(shared));
  return std::nullopt;
}

std::optional<TableRefusal> UnwindTables::replace(const MappedCode& file,
                                                  const std::string& content,
                                                  const UnwindTableView& table) {
  if (!known_->by_file.contains(file.key)) return install(file, content, table);
  SharedTable shared(content, file.payer, &known_->memory);
  const auto refusal = store(shared, table);
  if (refusal && arenas_.is_making_arena()) return refusal;
  // To make room, it may have been evicted already.
  if (known_->by_file.contains(file.key)) free_when_unused(unpublish(file.key));
  if (!refusal) add_table(file, std::move(shared));
  return refusal;
}

bool UnwindTables::refuse(const MappedCode& file, TableRefusal reason) {
  if (known_->by_file.contains(file.key)) return false;
  ++refused_[static_cast<std::size_t>(reason)];
  if (!make_room_for_file(file.payer)) return true;
  SharedTable refused({}, file.payer, &known_->memory);
  refused.refusal = Refusal{.reason = reason, .since_ns = now_ns_};
  add_table(file, std::move(refused));
  return true;
}

// A refused file has no rows, so there is no need to wait for the programs.
void UnwindTables::forget(const FileKey& file) {
  if (state(file) != State::kNone) return;
  free_all(unpublish(file));
  maps_->raise_generation();
}

void UnwindTables::cover(const MappedCode& file) {
  const auto known = known_->by_file.find(file.key);
  if (known == known_->by_file.end()) return;
  take_over(*known->second, file.payer);
  add_entries(*known->second, file.key, file.regions);
}

std::uint32_t UnwindTables::payer_of(const FileKey& file) const {
  const auto known = known_->by_file.find(file);
  return known == known_->by_file.end() ? 0 : known->second->payer;
}

// What root's processes use does not depend on the share of the user who was first.
void UnwindTables::take_over(SharedTable& shared, std::uint32_t payer) {
  if (payer != 0 || shared.payer == 0) return;
  budget_.remove(shared.payer, use_of(shared));
  shared.payer = payer;
  budget_.add(shared.payer, use_of(shared));
}

void UnwindTables::add_table(const MappedCode& file, SharedTable shared) {
  shared.changed_ns = now_ns_;
  shared.pinned = file.pinned;
  shared.runtime = file.runtime;
  shared.process = file.process;
  const auto added = known_->tables.insert(known_->tables.end(), std::move(shared));
  if (!added->content.empty()) known_->by_content.emplace(added->content, added);
  add_file(added, file);
}

bool UnwindTables::make_room_for_file(std::uint32_t payer) {
  return known_->by_file.size() < kMaxFiles || evict(payer, kOneEntry, !is_over_share(payer));
}

// All regions with rows get their entry now, also those that are not mapped yet.
void UnwindTables::add_file(SharedTables::iterator shared, const MappedCode& file) {
  if (!known_->by_file.emplace(file.key, shared).second) return;
  FileRegions regions = file.regions;
  for (const PlacedRegion& region : shared->regions) regions.set(region.number);
  shared->entries.emplace(file.key, FileRegions{});
  add_entries(*shared, file.key, regions);
}

// Without room for the entries, stacks in these regions stay deferred.
void UnwindTables::add_entries(SharedTable& shared, const FileKey& file,
                               const FileRegions& regions) {
  const FileRegions missing = regions & ~shared.entries.at(file);
  if (missing.none()) return;
  const TableUse use{.words = 0, .entries = missing.count()};
  shared.changed_ns = now_ns_;  // keeps make_room() from evicting it: never one's own in use
  if (!make_room(shared.payer, use)) return;
  for (std::size_t number = 0; number < missing.size(); ++number) {
    if (!missing[number]) continue;
    const auto region = std::ranges::find(shared.regions, number, &PlacedRegion::number);
    profd_table table{};
    table.state = PROFD_TABLE_NONE;
    if (region != shared.regions.end()) table = region->table;
    table.runtime = shared.runtime;
    // The budget keeps the map from being full; if put() fails anyway, stacks stay deferred.
    (void)maps_->put(key_of(file, number), table);
  }
  shared.entries.at(file) |= missing;
  budget_.add(shared.payer, use);
  maps_->raise_generation();
}

std::optional<TableRefusal> UnwindTables::store(SharedTable& shared, const UnwindTableView& table) {
  TableUse use{.words = 0, .entries = table.regions.size()};
  for (const UnwindRegionView& region : table.regions) {
    if (TableArenas::words_of(region) > limits_.arena_words ||
        region.header.region >= kMaxEntriesPerFile) {
      return TableRefusal::kTooLarge;
    }
    use.words += TableArenas::words_of(region);
  }
  if (table.rules.size() > limits_.max_rules_of_table) return TableRefusal::kTooLarge;
  if (!make_room(shared.payer, use)) return refusal_for(shared.payer, use);
  if (const auto refusal = take_rules(shared, table)) return refusal;
  if (!place(shared, table)) {
    rules_.release(shared.rules);
    return TableRefusal::kOverMemory;
  }
  budget_.add(shared.payer, {.words = use.words, .entries = 0});
  for (std::size_t i = 0; i < table.regions.size(); ++i) {
    arenas_.write(shared.regions[i], table.regions[i], shared.rules);
    shared.rows += table.regions[i].rows.size();
  }
  return std::nullopt;
}

// A rule is freed with the last table that uses it, so tables are evicted until there is room.
std::optional<TableRefusal> UnwindTables::take_rules(SharedTable& shared,
                                                     const UnwindTableView& table) {
  auto rules = rules_.acquire(table.rules, shared.payer);
  while (!rules) {
    const bool is_within_share = !rules_.is_over_share(shared.payer, table.rules.size());
    if (!evict(shared.payer, kOneEntry, is_within_share)) {
      return is_within_share ? TableRefusal::kOverMemory : TableRefusal::kOverShare;
    }
    rules = rules_.acquire(table.rules, shared.payer);
  }
  shared.rules.assign(rules->begin(), rules->end());
  return std::nullopt;
}

// Every free gap may be too small although their sum is not: then tables are evicted, a user's
// first of his own.
std::optional<ArenaBlock> UnwindTables::take_block(std::uint32_t payer, std::uint64_t words) {
  const TableUse use{.words = words, .entries = 0};
  auto block = arenas_.take(words);
  if (payer != 0) {
    while (!block && evict(payer, use, false)) block = arenas_.take(words);
  }
  if (budget_.is_over_share(payer, use)) return block;
  while (!block && evict(payer, use, true)) block = arenas_.take(words);
  return block;
}

// Places all regions, or none.
bool UnwindTables::place(SharedTable& shared, const UnwindTableView& table) {
  for (const UnwindRegionView& view : table.regions) {
    const auto block = take_block(shared.payer, TableArenas::words_of(view));
    const auto region = block ? arenas_.place(view, *block) : std::nullopt;
    if (!region) {
      for (const PlacedRegion& placed : shared.regions) arenas_.release(placed);
      shared.regions.clear();
      return false;
    }
    shared.regions.push_back(*region);
  }
  return true;
}

bool UnwindTables::is_over_share(std::uint32_t payer) const {
  return budget_.is_over_share(payer) || rules_.is_over_share(payer);
}

TableRefusal UnwindTables::refusal_for(std::uint32_t payer, const TableUse& more) const {
  return budget_.is_over_share(payer, more) ? TableRefusal::kOverShare : TableRefusal::kOverMemory;
}

bool UnwindTables::make_room(std::uint32_t payer, const TableUse& more) {
  while (!budget_.has_room(more)) {
    if (!evict(payer, more, !budget_.is_over_share(payer, more))) return false;
  }
  return true;
}

// Evicts tables until there is room, and kMinEvictedShare of it. False if there is no candidate.
// Reading all times of use is slow, and a user who maps thousands of files must not cause it for
// each of them: after a failure it is not tried again for kRetryInterval.
bool UnwindTables::evict(std::uint32_t payer, const TableUse& more, bool is_within_share) {
  const std::uint64_t words = std::max(more.words, arenas_.words_in_all() / kMinEvictedShare);
  const std::uint64_t entries =
      more.words != 0 || more.entries == 0
          ? more.entries
          : std::max(more.entries, limits_.max_entries / kMinEvictedShare);
  const std::uint32_t whose = is_within_share ? 0 : payer;
  if (const auto failed = failed_evictions_ns_.find(whose);
      failed != failed_evictions_ns_.end() &&
      now_ns_ < failed->second + nanoseconds_of(kRetryInterval)) {
    return false;
  }
  // What was evicted last is free soon.
  if (is_freeing()) return false;
  SharedTables removed(&known_->memory);
  TableUse freed;
  for (const SharedTables::iterator shared : candidates(payer, is_within_share)) {
    const bool enough_words = more.words == 0 || freed.words >= words;
    if (enough_words && freed.entries >= entries) break;
    freed += use_of(*shared);
    unpublish(shared, removed);
  }
  if (removed.empty()) {
    if (failed_evictions_ns_.size() >= kMaxFailedEvictions) failed_evictions_ns_.clear();
    failed_evictions_ns_[whose] = now_ns_;
    return false;
  }
  evicted_ += removed.size();
  free_when_unused(std::move(removed));
  return !is_freeing();
}

// What may be evicted for the payer, the least recently used tables first. Within the share: all
// that are not in use, then those in use of users over their share, until these are within it. Over
// the share: only those of this payer that are not in use.
std::vector<UnwindTables::SharedTables::iterator> UnwindTables::candidates(std::uint32_t payer,
                                                                           bool is_within_share) {
  using Candidate = std::pair<std::uint64_t, SharedTables::iterator>;
  std::vector<Candidate> cold;
  std::vector<Candidate> hot;
  for (auto shared = known_->tables.begin(); shared != known_->tables.end(); ++shared) {
    if (shared->pinned || (!is_within_share && shared->payer != payer)) continue;
    const std::uint64_t used_ns = last_used_ns(*shared);
    if (used_ns + nanoseconds_of(kHot) <= now_ns_) {
      cold.emplace_back(used_ns, shared);
    } else if (shared->payer != payer && is_over_share(shared->payer)) {
      hot.emplace_back(used_ns, shared);
    }
  }
  std::ranges::sort(cold, {}, &Candidate::first);
  std::ranges::sort(hot, {}, &Candidate::first);
  std::vector<SharedTables::iterator> ordered;
  ordered.reserve(cold.size() + hot.size());
  std::map<std::uint32_t, TableUse> evicted;
  for (const auto& [used_ns, shared] : cold) {
    ordered.push_back(shared);
    evicted[shared->payer] += use_of(*shared);
  }
  for (const auto& [used_ns, shared] : hot) {
    TableUse& less = evicted[shared->payer];
    if (!budget_.is_over_share(shared->payer, {}, less) && !rules_.is_over_share(shared->payer)) {
      continue;
    }
    ordered.push_back(shared);
    less += use_of(*shared);
  }
  return ordered;
}

std::uint64_t UnwindTables::last_used_ns(const SharedTable& shared) const {
  std::uint64_t last = shared.changed_ns;
  for_each_key(shared.entries,
               [&](const profd_table_key& key) { last = std::max(last, maps_->used_ns(key)); });
  return last;
}

UnwindTables::SharedTables UnwindTables::unpublish(const FileKey& file) {
  SharedTables removed(&known_->memory);
  unpublish(known_->by_file.at(file), removed);
  return removed;
}

// The programs do not find the table any more from the next generation on.
void UnwindTables::unpublish(SharedTables::iterator shared, SharedTables& removed) {
  for_each_key(shared->entries, [&](const profd_table_key& key) { maps_->erase(key); });
  for (const auto& [file, regions] : shared->entries) {
    known_->by_file.erase(file);
    if (on_removed_) on_removed_(file);
  }
  if (!shared->content.empty()) known_->by_content.erase(shared->content);
  removed.splice(removed.end(), known_->tables, shared);
}

TableUse UnwindTables::use_of(const SharedTable& shared) {
  TableUse use;
  for (const auto& [file, regions] : shared.entries) use.entries += regions.count();
  for (const PlacedRegion& region : shared.regions) use.words += region.block.words;
  return use;
}

void UnwindTables::free_when_unused(SharedTables removed) {
  maps_->raise_generation();
  removed_.push_back({.tables = std::move(removed), .grace_period = maps_->begin_grace_period()});
  free_unused();
}

void UnwindTables::free_unused() {
  while (!removed_.empty() && maps_->is_over(removed_.front().grace_period)) {
    free_all(removed_.front().tables);
    removed_.pop_front();
  }
}

// Only after the programs that could be reading the tables have ended.
void UnwindTables::free_all(const SharedTables& removed) {
  for (const SharedTable& shared : removed) {
    for (const PlacedRegion& region : shared.regions) arenas_.release(region);
    rules_.release(shared.rules);
    budget_.remove(shared.payer, use_of(shared));
  }
}

profd_rule UnwindTables::find_rule(const FileKey& file, std::uint64_t offset) const {
  const profd_rule& unknown = rules_[PROFD_RULE_INDEX_UNKNOWN];
  const auto known = known_->by_file.find(file);
  if (known == known_->by_file.end()) return unknown;
  const auto& regions = known->second->regions;
  const auto region =
      std::ranges::find(regions, offset >> PROFD_FILE_REGION_SHIFT, &PlacedRegion::number);
  if (region == regions.end()) return unknown;
  const auto rule =
      arenas_.find_rule(*region, static_cast<std::uint32_t>(offset & (kRegionBytes - 1)));
  if (!rule) return unknown;
  if ((*rule & PROFD_RULE_IN_DICTIONARY) == 0) return decode_inline_rule(*rule);
  return rules_[*rule & ~PROFD_RULE_IN_DICTIONARY];
}

void UnwindTables::tick(std::uint64_t now_ns) {
  now_ns_ = now_ns;
  free_unused();
  arenas_.look_for_arena();
  forget_unused();
  if (now_ns < next_refresh_ns_) return;
  next_refresh_ns_ = now_ns + nanoseconds_of(kRefreshInterval);
  give_back_memory();
  maps_->raise_generation();
}

// Scans some tables, those at the front of the list, and moves them to its end.
void UnwindTables::forget_unused() {
  if (now_ns_ < next_scan_ns_) return;
  next_scan_ns_ = now_ns_ + nanoseconds_of(kScanInterval);
  SharedTables& tables = known_->tables;
  SharedTables refused(&known_->memory);
  SharedTables removed(&known_->memory);
  std::size_t entries = 0;
  for (std::size_t left = std::min(kTablesOfScan, tables.size());
       left > 0 && entries < kEntriesOfScan; --left) {
    const auto shared = tables.begin();
    const bool is_due = may_be_forgotten(*shared) && now_ns_ >= shared->next_check_ns;
    if (is_due) entries += use_of(*shared).entries;
    if (is_due && is_unused(*shared)) {
      unpublish(shared, shared->refusal ? refused : removed);
    } else {
      tables.splice(tables.end(), tables, shared);
    }
  }
  if (!refused.empty()) {
    free_all(refused);
    maps_->raise_generation();
  }
  if (!removed.empty()) free_when_unused(std::move(removed));
}

bool UnwindTables::may_be_forgotten(const SharedTable& shared) {
  return !shared.pinned && (shared.refusal || shared.process || shared.payer != 0);
}

bool UnwindTables::is_unused(SharedTable& shared) {
  const std::uint64_t unused = nanoseconds_of(kUnused);
  const std::uint64_t last_used = last_used_ns(shared);
  const bool is_long_ago = last_used + unused <= now_ns_;
  shared.next_check_ns = (is_long_ago ? now_ns_ : last_used) + unused;
  const bool is_kept = !shared.refusal && shared.process && !is_gone_(*shared.process);
  return is_long_ago && !is_kept;
}

void UnwindTables::give_back_memory() {
  most_files_ = std::max(most_files_, known_->by_file.size());
  const bool was_flood = most_files_ >= kFlood && known_->by_file.size() <= most_files_ / 4;
  if (was_flood && removed_.empty()) move_to_new_memory();
  arenas_.drop_empty_arena();
}

// A pool keeps all memory that it ever took.
void UnwindTables::move_to_new_memory() {
  auto known = std::make_unique<Known>();
  for (const SharedTable& old : known_->tables) {
    const auto shared = known->tables.emplace(known->tables.end(), old, &known->memory);
    if (!shared->content.empty()) known->by_content.emplace(shared->content, shared);
    for (const auto& [file, regions] : shared->entries) known->by_file.emplace(file, shared);
  }
  known_ = std::move(known);
  most_files_ = known_->by_file.size();
}

void UnwindTables::add_to(UnwindStats& stats) const {
  stats.tables = known_->by_content.size();
  for (const SharedTable& shared : known_->tables) {
    stats.rows += shared.rows;
    if (!shared.refusal) stats.files += shared.entries.size();
  }
  stats.bytes = arenas_.bytes_taken();
  stats.arena_bytes = arenas_.arena_bytes();
  stats.cap_bytes = limits_.max_bytes;
  stats.rules = rules_.size();
  stats.evicted = evicted_;
  stats.refused = refused_;
}

}  // namespace profd
