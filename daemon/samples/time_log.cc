#include "daemon/samples/time_log.h"

#include <algorithm>
#include <utility>

namespace profd {
namespace {

constexpr unsigned kVarintBits = 7;
constexpr std::uint8_t kMoreBytes = 0x80;

std::uint8_t* write_number(std::uint32_t number, std::uint8_t* to) {
  for (; number >= kMoreBytes; number >>= kVarintBits) {
    *to++ = static_cast<std::uint8_t>(number | kMoreBytes);
  }
  *to++ = static_cast<std::uint8_t>(number);
  return to;
}

std::uint32_t read_number(const std::uint8_t*& at) {
  std::uint32_t number = 0;
  for (unsigned shift = 0;; shift += kVarintBits) {
    const std::uint8_t byte = *at++;
    number |= (byte & 0x7fU) << shift;
    if (byte < kMoreBytes) return number;
  }
}

// Records of several CPUs come in turns, so that ticks go back now and then: small differences of
// either sign take one byte.
std::uint32_t folded_difference(std::uint32_t to, std::uint32_t from) {
  const std::uint32_t difference = to - from;
  return difference << 1 ^ (0U - (difference >> 31));
}

std::uint32_t add_difference(std::uint32_t from, std::uint32_t folded) {
  return from + (folded >> 1 ^ (0U - (folded & 1)));
}

}  // namespace

std::size_t TimeLog::next_block_bytes() const {
  return std::clamp(bytes_, kFirstBlockBytes, kMaxBlockBytes);
}

std::optional<std::size_t> TimeLog::add(const Entry& entry, std::uint64_t room_bytes) {
  std::size_t taken = 0;
  if (blocks_.empty() || last_bytes_ - blocks_.back().used < kMaxEntryBytes) {
    taken = next_block_bytes();
    if (taken > room_bytes) return std::nullopt;
    blocks_.push_back({std::make_shared_for_overwrite<std::uint8_t[]>(taken)});
    last_bytes_ = taken;
    bytes_ += taken;
  }
  Block& block = blocks_.back();
  std::uint8_t* const begin = block.bytes.get() + block.used;
  std::uint8_t* end = write_number(folded_difference(entry.tick, last_tick_), begin);
  end = write_number(entry.stack, end);
  block.used += static_cast<std::uint32_t>(end - begin);
  last_tick_ = entry.tick;
  return taken;
}

std::vector<TimeLog::Entry> TimeLog::entries() const {
  std::vector<Entry> entries;
  std::uint32_t tick = 0;
  for (const Block& block : blocks_) {
    const std::uint8_t* at = block.bytes.get();
    for (const std::uint8_t* const end = at + block.used; at != end;) {
      tick = add_difference(tick, read_number(at));
      entries.push_back({.stack = read_number(at), .tick = tick});
    }
  }
  return entries;
}

TicksOfStacks::TicksOfStacks(const TimeLog& log) : entries_(log.entries()) {
  std::ranges::sort(entries_, {},
                    [](const TimeLog::Entry& entry) { return std::pair(entry.stack, entry.tick); });
  if (entries_.empty()) return;
  next_.resize(std::size_t{entries_.back().stack} + 1, entries_.size());
  for (std::size_t i = entries_.size(); i-- > 0;) next_[entries_[i].stack] = i;
}

std::span<const TimeLog::Entry> TicksOfStacks::take(std::size_t stack, std::uint64_t count) {
  if (stack >= next_.size()) return {};
  std::size_t& next = next_[stack];
  const std::size_t first = next;
  while (next < entries_.size() && entries_[next].stack == stack && next - first < count) ++next;
  return std::span(entries_).subspan(first, next - first);
}

}  // namespace profd
