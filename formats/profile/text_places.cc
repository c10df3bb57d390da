#include "formats/profile/text_places.h"

#include <algorithm>
#include <bit>
#include <cstring>
#include <functional>

namespace profd {
namespace {

constexpr std::uint32_t kNoPlace = 0xffffffff;

}  // namespace

void TextPlaces::add(std::string_view text, std::uint32_t index) {
  std::uint64_t start = 0;
  std::memcpy(&start, text.data(), std::min(text.size(), sizeof start));
  if constexpr (std::endian::native == std::endian::little) start = __builtin_bswap64(start);
  added_.push_back({start, text, index});
}

std::uint32_t TextPlaces::append(std::string_view text) {
  const auto index = static_cast<std::uint32_t>(ranks_.size());
  ranks_.push_back(0);
  add(text, index);
  return index;
}

void TextPlaces::rank() {
  std::ranges::sort(added_, std::less<>{});
  for (const Ranked& added : added_) {
    if (texts_.empty() || texts_.back() != added.text) texts_.push_back(added.text);
    ranks_[added.index] = static_cast<std::uint32_t>(texts_.size() - 1);
  }
  places_.resize(texts_.size(), kNoPlace);
  placed_.reserve(texts_.size());
}

std::uint32_t TextPlaces::place_of(std::uint32_t index) { return place_of_rank(ranks_[index]); }

std::uint32_t TextPlaces::place_of_rank(std::uint32_t rank) {
  std::uint32_t& place = places_[rank];
  if (place == kNoPlace) {
    place = static_cast<std::uint32_t>(placed_.size());
    placed_.push_back(texts_[rank]);
  }
  return place;
}

void TextPlaces::place_others() {
  for (std::uint32_t rank = 0; rank < texts_.size(); ++rank) place_of_rank(rank);
}

}  // namespace profd
