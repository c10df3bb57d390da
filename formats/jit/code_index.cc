#include "formats/jit/code_index.h"

#include <algorithm>
#include <iterator>
#include <limits>
#include <span>
#include <utility>

#include "formats/jit/code_forgetting.h"
#include "formats/jit/jitdump_format.h"

namespace profd {
namespace {

constexpr std::uint64_t kForever = std::numeric_limits<std::uint64_t>::max();

// How many rows a search visits in all buckets together, and how many younger rows a new one may
// be listed before. A bucket has at most eight functions of its level side by side. So a function
// is found although each of its neighbours was replaced a hundred times, as in a region of 2 MB
// that 262,144 functions have reused.
constexpr std::size_t kMaxSteps = 1024;
// The same when code is added or moved, which a file can cause thousands of times a second. Beyond
// it, code that is there already is added again, and a MOVE is counted as unknown. Without reuse of
// addresses, the buckets of all levels have some 60 functions side by side.
constexpr std::size_t kMaxStepsOfChange = 256;
constexpr std::size_t kMaxBucketsOfLevel = 64;

// How much of forgetting is done with each row that is appended. A step takes 0.3 us. Forgetting
// has up to 2.3 steps for each row that there may be, and is over when an eighth of them are
// appended.
constexpr std::size_t kForgettingSteps = 24;

constexpr std::size_t kNamesBytes = 65536;
constexpr std::uint16_t kMaxNameBytes = 0x1fff;  // what JitGeneration::name_bytes holds

// The key of the bucket of an address. A bucket's number has 56 bits at most.
std::uint64_t key_of(unsigned level, std::uint64_t address) {
  const unsigned shift = 8 + 2 * level;
  return std::uint64_t{level} << 58 | (shift < 64 ? address >> shift : 0);
}

// How far before `place` a range starts; 0 where there is none, or it does not fit.
std::uint32_t distance_back(const JitFileRange& range, std::uint64_t place) {
  if (range.bytes == 0 || range.offset >= place) return 0;
  const std::uint64_t back = place - range.offset;
  return back <= std::numeric_limits<std::uint32_t>::max() ? static_cast<std::uint32_t>(back) : 0;
}

JitFileRange range_back(std::uint64_t place, std::uint32_t back, std::uint32_t bytes) {
  return back == 0 ? JitFileRange{} : JitFileRange{place - back, bytes};
}

JitGeneration generation_of(const JitCode& code) {
  const std::uint64_t place = code.code.offset;
  return {.address = code.address,
          .bytes = code.bytes,
          .born_ns = code.born_ns,
          .code_offset = place,
          .debug_info_back = distance_back(code.debug_info, place),
          .debug_info_bytes = static_cast<std::uint32_t>(code.debug_info.bytes),
          .unwinding_back = distance_back(code.unwinding_info, place),
          .unwinding_bytes = static_cast<std::uint32_t>(code.unwinding_info.bytes),
          .source = code.source,
          .has_code = code.code.bytes > 0};
}

JitGeneration absence(std::uint64_t address, std::uint64_t bytes, std::uint64_t time_ns) {
  return {.address = address, .bytes = bytes, .born_ns = time_ns, .is_function = 0};
}

// From this amount on, an index forgets: an eighth of the room is left for what is added meanwhile.
std::size_t nearly_all(std::size_t limit) { return limit - limit / 8; }

}  // namespace

JitCodeIndex::JitCodeIndex(const JitCodeLimits& limits)
    : limits_(limits), buckets_(0, BucketHash{random_seed()}) {}
JitCodeIndex::JitCodeIndex(JitCodeIndex&& other) noexcept = default;
JitCodeIndex& JitCodeIndex::operator=(JitCodeIndex&& other) noexcept = default;
JitCodeIndex::~JitCodeIndex() = default;

void JitCodeIndex::add(const JitCode& code) {
  if (code.bytes == 0 || code.bytes > jitdump::kMaxCodeBytes) return;
  if (code.born_ns < complete_since_ns_) {
    ++losses_.forgotten;
    return;
  }
  const JitGeneration generation = generation_of(code);
  const std::string_view name = code.name.substr(0, jitdump::kMaxNameBytes);
  if (!has_unchanged(generation, name)) append(generation, name);
}

// Whether the same code lies there already, and nothing younger over any part of it.
bool JitCodeIndex::has_unchanged(const JitGeneration& generation, std::string_view name) const {
  const auto [known, is_complete] = youngest_at(generation.address, kForever, kMaxStepsOfChange);
  return is_complete && known != nullptr && known->is_function != 0 &&
         known->address == generation.address && known->bytes == generation.bytes &&
         known->born_ns <= generation.born_ns && known->has_code >= generation.has_code &&
         name_of(*known) == name && !is_overlaid(*known, kMaxStepsOfChange);
}

// Whether a younger generation overlaps this one. True also where the search takes too long.
bool JitCodeIndex::is_overlaid(const JitGeneration& generation, std::size_t max_steps) const {
  const auto overlaps = [&generation](const JitGeneration& row) {
    return row.overlaps(generation);
  };
  const auto [younger, is_complete] = search<true>(generation.address, generation.last(), kForever,
                                                   &generation, overlaps, max_steps);
  return younger != nullptr || !is_complete;
}

// Where names take all their room, the code has none: without its row, older code would be taken
// for what lives there.
void JitCodeIndex::append(JitGeneration generation, std::string_view name) {
  forget_some();
  if (name_bytes_ + name.size() > limits_.name_bytes) {
    generation.is_function = 0;
    name = {};
    ++losses_.forgotten;
  }
  generation.serial = next_serial_++;
  if (!list(generation, name)) ++losses_.forgotten;
}

// Appends the row, and its index to the buckets of its addresses. False, and nothing is appended,
// where thousands of rows in a bucket are younger.
bool JitCodeIndex::list(JitGeneration row, std::string_view name) {
  unsigned level = 0;
  while (level + 1 < kLevels && row.bytes > std::uint64_t{1} << (7 + 2 * level)) ++level;
  const std::uint64_t first = key_of(level, row.address);
  const std::uint64_t last = key_of(level, row.last());
  const auto is_full = [&](std::uint64_t key) {
    const auto found = buckets_.find(key);
    if (found == buckets_.end() || found->second.size() <= kMaxSteps) return false;
    return found->second.end() - place_in(found->second, row) > std::ptrdiff_t{kMaxSteps};
  };
  if (is_full(first) || is_full(last)) return false;
  for (std::uint64_t key = first; key <= last; ++key) {
    Bucket& bucket = buckets_[key];
    const auto spilled = [&bucket] {
      return bucket.capacity() > Bucket::internal_capacity() ? bucket.capacity() : 0;
    };
    spilled_ids_ -= spilled();
    bucket.insert(place_in(bucket, row), static_cast<std::uint32_t>(rows_.size()));
    spilled_ids_ += spilled();
  }
  set_name(row, name);
  rows_.push_back(row);
  functions_ += row.is_function;
  ++on_level_[level];
  return true;
}

JitCodeIndex::Bucket::const_iterator JitCodeIndex::place_in(const Bucket& bucket,
                                                            const JitGeneration& row) const {
  return std::ranges::partition_point(
      bucket, [&](std::uint32_t id) { return !row.is_older_than(rows_[id]); });
}

void JitCodeIndex::set_name(JitGeneration& row, std::string_view name) {
  name = name.substr(0, kMaxNameBytes);
  if (names_.empty() || names_.back().size() + name.size() > kNamesBytes) {
    names_.emplace_back().reserve(kNamesBytes);
  }
  row.name_offset =
      static_cast<std::uint32_t>((names_.size() - 1) * kNamesBytes + names_.back().size());
  row.name_bytes = static_cast<std::uint16_t>(name.size()) & kMaxNameBytes;
  names_.back().append(name);
  name_bytes_ += name.size();
}

std::string_view JitCodeIndex::name_of(const JitGeneration& row) const {
  return std::string_view(names_[row.name_offset / kNamesBytes])
      .substr(row.name_offset % kNamesBytes, row.name_bytes);
}

void JitCodeIndex::move(std::uint64_t from, std::uint64_t to, std::uint64_t time_ns) {
  const auto [known, is_complete] = youngest_at(from, time_ns, kMaxStepsOfChange);
  if (!is_complete || known == nullptr || known->is_function == 0 || known->address != from) {
    ++losses_.unknown_moves;
    return;
  }
  JitGeneration moved = *known;
  const std::string name(name_of(*known));
  end(from, moved.bytes, time_ns);
  moved.address = to;
  moved.born_ns = time_ns;
  append(moved, name);
}

void JitCodeIndex::end(std::uint64_t address, std::uint64_t bytes, std::uint64_t time_ns) {
  if (bytes != 0) append(absence(address, bytes, time_ns), {});
}

// The youngest match that was born at `time_ns` or before, or else the oldest born after it, among
// the rows that overlap the addresses. `bound`, if it is not null, is a row that the match must be
// better than.
template <bool kYoungest, class Matches>
JitCodeIndex::Found JitCodeIndex::search(std::uint64_t first, std::uint64_t last,
                                         std::uint64_t time_ns, const JitGeneration* bound,
                                         Matches matches, std::size_t max_steps) const {
  const JitGeneration* best = bound;
  std::size_t steps = max_steps;
  const auto search_rows = [&](auto id, auto end) {
    for (; id != end && steps > 0; ++id, --steps) {
      const JitGeneration& row = rows_[*id];
      const bool is_better =
          best == nullptr || (kYoungest ? best->is_older_than(row) : row.is_older_than(*best));
      if (!is_better) return;
      if (!matches(row)) continue;
      best = &row;
      return;
    }
  };
  for (unsigned level = 0; level < kLevels; ++level) {
    if (on_level_[level] == 0) continue;
    const std::uint64_t key = key_of(level, first);
    const std::uint64_t others = key_of(level, last) - key;
    if (others >= kMaxBucketsOfLevel) return {.row = nullptr, .is_complete = false};
    for (std::uint64_t i = 0; i <= others; ++i) {
      const auto found = buckets_.find(key + i);
      if (found == buckets_.end()) continue;
      const std::span<const std::uint32_t> bucket(found->second.data(), found->second.size());
      const auto later = std::ranges::partition_point(
          bucket, [&](std::uint32_t id) { return rows_[id].born_ns <= time_ns; });
      if constexpr (kYoungest) {
        search_rows(std::make_reverse_iterator(later), bucket.rend());
      } else {
        search_rows(later, bucket.end());
      }
    }
  }
  return {.row = best == bound ? nullptr : best, .is_complete = steps > 0};
}

JitCodeIndex::Found JitCodeIndex::youngest_at(std::uint64_t address, std::uint64_t time_ns,
                                              std::size_t max_steps) const {
  const auto covers = [address](const JitGeneration& row) { return row.covers(address); };
  return search<true>(address, address, time_ns, nullptr, covers, max_steps);
}

std::optional<JitCode> JitCodeIndex::at(std::uint64_t address, std::uint64_t time_ns) const {
  const auto [lived, is_complete] =
      youngest_at(address, std::max(time_ns, complete_since_ns_), kMaxSteps);
  if (!is_complete) return std::nullopt;
  const bool is_code = lived != nullptr && lived->is_function != 0;
  if (complete_since_ns_ > 0) {
    // What was forgotten may have lived there before, unless this code lived all the time since.
    if (!is_code || lived->born_ns > time_ns) return std::nullopt;
    return answer(*lived);
  }
  if (is_code) return answer(*lived);
  const auto is_code_at = [address](const JitGeneration& row) {
    return row.is_function != 0 && row.covers(address);
  };
  const auto later = search<false>(address, address, time_ns, nullptr, is_code_at, kMaxSteps);
  if (later.row == nullptr) return std::nullopt;
  return answer(*later.row);
}

std::optional<JitCode> JitCodeIndex::successor_of(const JitCode& known, std::uint64_t address,
                                                  std::uint64_t time_ns) const {
  const JitGeneration* const newest = youngest_at(address, time_ns, kMaxSteps).row;
  if (newest == nullptr || newest->is_function == 0 ||
      newest->born_ns < std::max(known.born_ns, complete_since_ns_)) {
    return std::nullopt;
  }
  const auto is_known = [&](const JitGeneration& row) {
    return row.address == known.address && row.bytes == known.bytes && row.is_older_than(*newest) &&
           name_of(row) == known.name;
  };
  const Found older =
      search<true>(known.address, known.address, newest->born_ns, nullptr, is_known, kMaxSteps);
  if (older.row == nullptr) return std::nullopt;
  return answer(*newest);
}

bool JitCodeIndex::is_unchanged_since(std::uint64_t address, std::uint64_t bytes,
                                      std::uint64_t time_ns) const {
  JitGeneration range = absence(address, bytes, time_ns);
  range.serial = kForever;
  return !is_overlaid(range, kMaxSteps);
}

JitCode JitCodeIndex::answer(const JitGeneration& found) const {
  found.was_used = 1;
  const std::uint64_t place = found.code_offset;
  return {.address = found.address,
          .bytes = found.bytes,
          .born_ns = found.born_ns,
          .serial = found.serial,
          .source = found.source,
          .name = name_of(found),
          .code = {place, found.has_code ? found.bytes : 0},
          .debug_info = range_back(place, found.debug_info_back, found.debug_info_bytes),
          .unwinding_info = range_back(place, found.unwinding_back, found.unwinding_bytes)};
}

// Makes room without making any answer wrong. First the rows that stay are chosen, then they are
// copied, and at last the copy replaces the index.
void JitCodeIndex::forget_some() {
  const bool is_nearly_full = rows_.size() >= nearly_all(limits_.generations) ||
                              name_bytes_ >= nearly_all(limits_.name_bytes);
  if (!forgetting_) {
    if (!is_nearly_full || rows_.empty()) return;
    forgetting_ = std::make_unique<JitForgetting>(rows_);
    copy_ = std::make_unique<JitCodeIndex>(limits_);
    copy_->buckets_.reserve(buckets_.size());
    copied_ = 0;
  }
  const bool is_full = rows_.size() >= limits_.generations;  // all steps that are left are due
  for (std::size_t steps = 0; steps < kForgettingSteps || is_full; ++steps) {
    if (forgetting_->step(rows_)) continue;
    if (copied_ == rows_.size()) return replace_by_copy();
    copy_row(copied_++);
  }
}

void JitCodeIndex::copy_row(std::size_t row) {
  if (!forgetting_->keeps(row)) return;
  JitGeneration copy = rows_[row];
  const std::string_view name = name_of(copy);
  copy.was_used = 0;
  (void)copy_->list(copy, name);  // in the order of the first time: none comes too late
}

void JitCodeIndex::replace_by_copy() {
  const std::unique_ptr<JitForgetting> forgetting = std::move(forgetting_);
  const std::unique_ptr<JitCodeIndex> copy = std::move(copy_);
  copy->next_serial_ = next_serial_;
  copy->complete_since_ns_ = std::max(complete_since_ns_, forgetting->complete_since_ns());
  copy->losses_ = losses_;
  copy->losses_.forgotten += forgetting->forgotten();
  *this = std::move(*copy);
}

std::size_t JitCodeIndex::memory_bytes() const {
  return rows_.size() * sizeof(JitGeneration) + names_.size() * kNamesBytes +
         spilled_ids_ * sizeof(std::uint32_t) +
         buckets_.bucket_count() * (sizeof(Buckets::value_type) + 1);
}

}  // namespace profd
