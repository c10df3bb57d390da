#include "formats/unwind/unwind_table.h"

#include <algorithm>
#include <cstring>
#include <utility>

namespace profd {
namespace {

constexpr std::uint32_t kUnknownCode = PROFD_RULE_IN_DICTIONARY | PROFD_RULE_INDEX_UNKNOWN;
constexpr std::uint32_t kEndCode = PROFD_RULE_IN_DICTIONARY | PROFD_RULE_INDEX_END;
constexpr std::uint64_t kMaxOffset = std::uint64_t{4} << 30;
constexpr std::uint64_t kMaxTableBytes = std::uint64_t{1} << 31;

// So a region with all its bucket starts, and a final row, fits in an arena.
constexpr std::size_t kMaxRegionRows = PROFD_ARENA_WORDS - PROFD_BUCKETS_PER_FILE_REGION - 2;

constexpr std::uint32_t region_of(std::uint64_t offset) {
  return static_cast<std::uint32_t>(offset >> PROFD_FILE_REGION_SHIFT);
}

constexpr std::uint32_t bucket_of(std::uint64_t offset) {
  return static_cast<std::uint32_t>(offset >> PROFD_BUCKET_SHIFT) &
         (PROFD_BUCKETS_PER_FILE_REGION - 1);
}

std::array<std::uint64_t, 4> words_of(const profd_rule& rule) {
  std::array<std::uint64_t, 4> words;
  static_assert(sizeof words == sizeof rule);
  std::memcpy(words.data(), &rule, sizeof rule);
  return words;
}

template <class T>
void append(std::string& to, const T* values, std::size_t count) {
  to.append(reinterpret_cast<const char*>(values), count * sizeof(T));
}

// The five bits of a register slot: 0 for unchanged, otherwise the number of words below the CFA.
std::optional<std::uint32_t> encode_slot(std::uint8_t saved, std::int32_t offset) {
  if (saved == PROFD_SAVED_NOT) return 0;
  if (saved != PROFD_SAVED_AT_CFA || offset >= 0 || offset % 8 != 0) return std::nullopt;
  const std::int64_t slot = -(std::int64_t{offset} / 8);
  if (slot > PROFD_RULE_SLOT_MASK) return std::nullopt;
  return static_cast<std::uint32_t>(slot);
}

void decode_slot(std::uint32_t slot, std::uint8_t& saved, std::int32_t& offset) {
  saved = slot == 0 ? PROFD_SAVED_NOT : PROFD_SAVED_AT_CFA;
  offset = -8 * static_cast<std::int32_t>(slot);
}

}  // namespace

std::string_view name_of(CfiLoss loss) {
  constexpr std::array<std::string_view, kCfiLossCount> kNames = {
      "malformed",    "unsupported CFA", "unsupported register",
      "outside code", "overlap",         "over limit"};
  return kNames[static_cast<std::size_t>(loss)];
}

std::optional<std::uint32_t> encode_inline_rule(const profd_rule& rule) {
  if (rule.kind != PROFD_RULE_REGISTER || rule.ra_saved != PROFD_SAVED_AT_CFA ||
      rule.ra_offset != -8) {
    return std::nullopt;
  }
  const bool from_rbp = rule.cfa_register == PROFD_DWARF_RBP;
  if (!from_rbp && rule.cfa_register != PROFD_DWARF_RSP) return std::nullopt;
  if (rule.cfa_offset < 0 || rule.cfa_offset % 8 != 0) return std::nullopt;
  const auto cfa_words = static_cast<std::uint32_t>(rule.cfa_offset) / 8;
  if (cfa_words > PROFD_RULE_CFA_MASK) return std::nullopt;
  const auto rbp = encode_slot(rule.rbp_saved, rule.rbp_offset);
  const auto rbx = encode_slot(rule.rbx_saved, rule.rbx_offset);
  if (!rbp || !rbx) return std::nullopt;
  return (from_rbp ? PROFD_RULE_CFA_RBP : 0) | cfa_words << PROFD_RULE_CFA_SHIFT |
         *rbx << PROFD_RULE_RBX_SHIFT | *rbp;
}

profd_rule decode_inline_rule(std::uint32_t rule) {
  profd_rule decoded{};
  decoded.kind = PROFD_RULE_REGISTER;
  decoded.cfa_register = (rule & PROFD_RULE_CFA_RBP) != 0 ? PROFD_DWARF_RBP : PROFD_DWARF_RSP;
  decoded.cfa_offset =
      static_cast<std::int32_t>(8 * (rule >> PROFD_RULE_CFA_SHIFT & PROFD_RULE_CFA_MASK));
  decoded.ra_saved = PROFD_SAVED_AT_CFA;
  decoded.ra_offset = -8;
  decode_slot(rule & PROFD_RULE_SLOT_MASK, decoded.rbp_saved, decoded.rbp_offset);
  decode_slot(rule >> PROFD_RULE_RBX_SHIFT & PROFD_RULE_SLOT_MASK, decoded.rbx_saved,
              decoded.rbx_offset);
  return decoded;
}

void UnwindTableWriter::count_loss(CfiLoss loss, std::uint32_t times) {
  lost_[static_cast<std::size_t>(loss)] += times;
}

void UnwindTableWriter::add(const UnwindRow& row) {
  if (row.offset > kMaxOffset || row.offset < pending_offset_) {
    count_loss(CfiLoss::kOutsideCode);
    return;
  }
  if (row.offset != pending_offset_) commit(pending_offset_, pending_code_);
  pending_offset_ = row.offset;
  pending_code_ = code_of(row.rule);
}

std::uint32_t UnwindTableWriter::code_of(const profd_rule& rule) {
  if (rule.kind == PROFD_RULE_UNKNOWN) return kUnknownCode;
  if (rule.kind == PROFD_RULE_END) return kEndCode;
  if (std::memcmp(&rule, &last_rule_, sizeof rule) == 0) return last_code_;
  const auto in_row = encode_inline_rule(rule);
  last_rule_ = rule;
  last_code_ = in_row ? *in_row : intern(rule);
  return last_code_;
}

std::uint32_t UnwindTableWriter::intern(const profd_rule& rule) {
  const auto known = codes_.find(words_of(rule));
  if (known != codes_.end()) return known->second;
  if (rules_.size() >= kMaxTableRules) {
    count_loss(CfiLoss::kOverLimit);
    return kUnknownCode;
  }
  const auto index = static_cast<std::uint32_t>(PROFD_RULE_FIRST_FREE + rules_.size());
  rules_.push_back(rule);
  codes_.emplace(words_of(rule), PROFD_RULE_IN_DICTIONARY | index);
  return PROFD_RULE_IN_DICTIONARY | index;
}

bool UnwindTableWriter::has_room(std::uint32_t region) const {
  const bool same = !regions_.empty() && regions_.back().header.region == region;
  return !is_full() && (!same || regions_.back().rows.size() < kMaxRegionRows);
}

void UnwindTableWriter::commit(std::uint64_t offset, std::uint32_t code) {
  if (code != kUnknownCode && !has_room(region_of(offset))) {
    if (current_code_ != kUnknownCode) count_loss(CfiLoss::kOverLimit);
    code = kUnknownCode;
  }
  if (code == current_code_) return;
  Region& region = region_for(offset);
  fill_buckets(region, bucket_of(offset) - region.header.first_bucket + 1);
  region.rows.push_back(static_cast<std::uint32_t>(offset & PROFD_ROW_OFFSET_MASK) |
                        code << PROFD_ROW_RULE_SHIFT);
  current_code_ = code;
  ++row_count_;
}

// Opens the row's region if the last row is in an earlier one. A rule that extends into the next
// region becomes that region's sentinel, and so on.
UnwindTableWriter::Region& UnwindTableWriter::region_for(std::uint64_t offset) {
  const std::uint32_t wanted = region_of(offset);
  const bool reaches = current_code_ != kUnknownCode;
  while (regions_.empty() || regions_.back().header.region != wanted) {
    if (reaches) {
      fill_buckets(regions_.back(),
                   PROFD_BUCKETS_PER_FILE_REGION - regions_.back().header.first_bucket);
      open_region(regions_.back().header.region + 1, 0);
    } else {
      open_region(wanted, bucket_of(offset));
    }
  }
  return regions_.back();
}

void UnwindTableWriter::open_region(std::uint32_t region, std::uint32_t first_bucket) {
  Region& opened = regions_.emplace_back();
  opened.header.region = region;
  opened.header.first_bucket = first_bucket;
  opened.rows.push_back(current_code_ << PROFD_ROW_RULE_SHIFT);
  ++row_count_;
}

// Extends the region to `count` buckets; the new ones are empty.
void UnwindTableWriter::fill_buckets(Region& region, std::size_t count) {
  if (region.bucket_starts.size() < count) {
    region.bucket_starts.resize(count, static_cast<std::uint32_t>(region.rows.size()));
  }
}

Result<std::string> UnwindTableWriter::encode() {
  commit(pending_offset_, pending_code_);
  UnwindTableHeader header{};
  std::memcpy(header.magic, kUnwindTableMagic.data(), sizeof header.magic);
  header.rule_count = static_cast<std::uint32_t>(rules_.size());
  header.region_count = static_cast<std::uint32_t>(regions_.size());
  header.row_count = row_count_;
  std::ranges::copy(lost_, header.lost);
  std::uint64_t bytes = sizeof header + rules_.size() * sizeof(profd_rule);
  for (const Region& region : regions_) {
    bytes += sizeof region.header + 4 * (region.bucket_starts.size() + 1 + region.rows.size());
  }
  if (bytes > kMaxTableBytes) return fail(ErrorCode::kTooLarge, "unwind rows of more than 2 GiB");
  std::string encoded;
  encoded.reserve(bytes);
  append(encoded, &header, 1);
  append(encoded, rules_.data(), rules_.size());
  for (Region& region : regions_) {
    const Region taken = std::exchange(region, {});  // frees the rows while encoding
    const auto row_count = static_cast<std::uint32_t>(taken.rows.size());
    const UnwindRegionHeader region_header{taken.header.region, taken.header.first_bucket,
                                           static_cast<std::uint32_t>(taken.bucket_starts.size()),
                                           row_count};
    append(encoded, &region_header, 1);
    append(encoded, taken.bucket_starts.data(), taken.bucket_starts.size());
    append(encoded, &row_count, 1);
    append(encoded, taken.rows.data(), taken.rows.size());
  }
  *this = UnwindTableWriter();
  return encoded;
}

}  // namespace profd
