#include "formats/profile/mapping_union.h"

#include <algorithm>
#include <iterator>

namespace profd {
namespace {

// The end of the moved mappings; moved frames without a mapping have this bit set.
constexpr std::uint64_t kMovedLimit = std::uint64_t{1} << 54;

// Between two moved mappings, so that readers do not join them.
constexpr std::uint64_t kGapBytes = 4096;
constexpr unsigned kPageBits = 12;

bool is_kernel(const ProfileMapping& mapping) {
  return unfold_kernel_address(mapping.start) != mapping.start;
}

// A name in brackets is not that of a file: all mappings with the same one are the same object.
bool is_same_object(const ProfileMapping& a, const ProfileMapping& b) {
  if (a.path != b.path) return false;
  if (a.path.starts_with('[') || is_kernel(a)) return true;
  return a.start - a.file_offset == b.start - b.file_offset;
}

// Sorted by start; empty when they overlap.
std::vector<const ProfileMapping*> in_order(std::span<const ProfileMapping> mappings) {
  std::vector<const ProfileMapping*> ordered;
  ordered.reserve(mappings.size());
  for (const ProfileMapping& mapping : mappings) ordered.push_back(&mapping);
  std::ranges::sort(ordered, {}, &ProfileMapping::start);
  const auto overlap = [](const auto* a, const auto* b) { return a->end > b->start; };
  if (std::ranges::adjacent_find(ordered, overlap) != ordered.end()) ordered.clear();
  return ordered;
}

}  // namespace

std::optional<std::vector<MappingUnion::Placement>> MappingUnion::place(
    std::span<const ProfileMapping> mappings) {
  const std::vector<const ProfileMapping*> ordered = in_order(mappings);
  if (ordered.size() != mappings.size() || !has_room_for(mappings)) return std::nullopt;
  const auto fits = [this](const auto& mapping) { return is_of_this_kernel(mapping); };
  if (!std::ranges::all_of(mappings, fits)) return std::nullopt;
  std::vector<Placement> placements;
  placements.reserve(ordered.size());
  for (const ProfileMapping* mapping : ordered) {
    std::uint64_t shift = 0;
    if (agrees(*mapping)) {
      unite(*mapping);
    } else {
      shift = move_away(*mapping) - mapping->start;
    }
    placements.push_back({.start = mapping->start, .end = mapping->end, .shift = shift});
  }
  find_executable(mappings);
  return placements;
}

std::uint64_t MappingUnion::place_unmapped(std::uint64_t address) {
  if (unfold_kernel_address(address) != address) return address;  // no other mapping lies there
  const auto [first, end] = overlapped_by(address, address + 1);
  if (first != end) return address | kMovedLimit;
  unmapped_pages_.insert(address >> kPageBits);
  return address;
}

std::vector<ProfileMapping> MappingUnion::mappings() const {
  std::vector<ProfileMapping> mappings;
  mappings.reserve(regions_.size());
  for (const auto& [start, region] : regions_) mappings.push_back(region);
  std::stable_partition(mappings.begin(), mappings.end(), [this](const ProfileMapping& mapping) {
    return mapping.path == executable_;
  });
  return mappings;
}

// Whether there is room to move all of them. Real processes need far less, and have no addresses in
// that space.
bool MappingUnion::has_room_for(std::span<const ProfileMapping> mappings) const {
  std::uint64_t end = next_free_;
  if (!regions_.empty()) end = std::max(end, std::prev(regions_.end())->second.end);
  for (const ProfileMapping& mapping : mappings) {
    if (is_kernel(mapping)) continue;
    if (mapping.end <= mapping.start || mapping.end > kMovedLimit) return false;
    end = std::max(end, mapping.end);
  }
  std::uint64_t room = kMovedLimit - std::min(end, kMovedLimit);
  for (const ProfileMapping& mapping : mappings) {
    const std::uint64_t bytes = mapping.end - mapping.start + kGapBytes;
    if (is_kernel(mapping)) continue;
    if (bytes > room) return false;
    room -= bytes;
  }
  return true;
}

bool MappingUnion::is_of_this_kernel(const ProfileMapping& mapping) const {
  return !is_kernel(mapping) || kernel_.empty() || kernel_ == mapping.path;
}

std::pair<MappingUnion::Regions::iterator, MappingUnion::Regions::iterator>
MappingUnion::overlapped_by(std::uint64_t start, std::uint64_t end) {
  auto first = regions_.upper_bound(start);
  if (first != regions_.begin() && std::prev(first)->second.end > start) --first;
  return {first, regions_.lower_bound(end)};
}

bool MappingUnion::has_unmapped_in(std::uint64_t start, std::uint64_t end) const {
  const auto page = unmapped_pages_.lower_bound(start >> kPageBits);
  return page != unmapped_pages_.end() && *page <= (end - 1) >> kPageBits;
}

bool MappingUnion::agrees(const ProfileMapping& mapping) {
  const auto [first, end] = overlapped_by(mapping.start, mapping.end);
  const bool same = std::all_of(first, end, [&mapping](const auto& region) {
    return is_same_object(mapping, region.second);
  });
  return same && !has_unmapped_in(mapping.start, mapping.end);
}

// The mapping and the regions that it overlaps become one region.
void MappingUnion::unite(const ProfileMapping& mapping) {
  if (is_kernel(mapping)) kernel_ = mapping.path;
  const auto [first, end] = overlapped_by(mapping.start, mapping.end);
  if (first == end) {
    regions_.emplace_hint(end, mapping.start, mapping);
    return;
  }
  const auto last = std::prev(end);
  last->second.end = std::max(last->second.end, mapping.end);
  if (mapping.start >= first->first && first == last) return;
  ProfileMapping whole = mapping.start <= first->first ? mapping : first->second;
  whole.end = last->second.end;
  regions_.emplace_hint(regions_.erase(first, end), whole.start, whole);
}

// Moves next_free_ behind mappings and frames of profiles that lie in the space for moved ones.
void MappingUnion::skip_used(std::uint64_t bytes) {
  for (;;) {
    const auto [first, end] = overlapped_by(next_free_, next_free_ + bytes);
    if (first != end) {
      next_free_ = std::prev(end)->second.end + kGapBytes;
    } else if (has_unmapped_in(next_free_, next_free_ + bytes)) {
      next_free_ += kGapBytes;
    } else {
      return;
    }
  }
}

std::uint64_t MappingUnion::move_away(const ProfileMapping& mapping) {
  const std::uint64_t bytes = mapping.end - mapping.start;
  // Mappings without a file are distinguished by their address.
  const std::uint64_t origin = mapping.path.starts_with('[') ? mapping.start : mapping.file_offset;
  const auto [known, added] = moved_.try_emplace({mapping.path, origin, bytes}, 0);
  if (!added) return known->second;
  skip_used(bytes);
  known->second = next_free_;
  regions_.emplace(next_free_, ProfileMapping{next_free_, next_free_ + bytes, mapping.file_offset,
                                              mapping.path});
  next_free_ += bytes + kGapBytes;
  return known->second;
}

// A profile lists mappings by address, except that those of the main executable come first. So a
// first mapping above the second one is the main executable's.
void MappingUnion::find_executable(std::span<const ProfileMapping> mappings) {
  if (!executable_.empty() || mappings.size() < 2) return;
  if (mappings[0].start > mappings[1].start) executable_ = mappings[0].path;
}

}  // namespace profd
