// The places of texts in the string table of a file (pprof_order.h).
//
// A text has a rank, its place among all texts in the order of their bytes, by which other entries
// are sorted; and a place in the table, which it gets when the first entry that has it is written:
// texts of one entry then follow each other, and pack better.
//
// Borrows the texts.

#pragma once

#include <cstdint>
#include <string_view>
#include <vector>

namespace profd {

class TextPlaces {
 public:
  // For texts of indexes below `count`.
  explicit TextPlaces(std::uint32_t count) : ranks_(count) {}

  // Texts are added before the first rank is asked for. Equal ones get one rank and one place.
  void add(std::string_view text, std::uint32_t index);
  // Returns the index that the text gets, from `count` on.
  std::uint32_t append(std::string_view text);
  void rank();

  [[nodiscard]] std::uint32_t rank_of(std::uint32_t index) const { return ranks_[index]; }

  // Gives the text the next place if it has none, and returns its place.
  std::uint32_t place_of(std::uint32_t index);
  // Gives places to the texts that have none, in the order of their ranks.
  void place_others();

  // In the order of their places.
  [[nodiscard]] std::vector<std::string_view> take() && { return std::move(placed_); }

 private:
  struct Ranked {
    std::uint64_t start = 0;  // its first bytes, which decide most comparisons
    std::string_view text;
    std::uint32_t index = 0;

    friend bool operator<(const Ranked& a, const Ranked& b) {
      return a.start != b.start ? a.start < b.start : a.text < b.text;
    }
  };

  std::uint32_t place_of_rank(std::uint32_t rank);

  std::vector<Ranked> added_;
  std::vector<std::uint32_t> ranks_;     // by index
  std::vector<std::string_view> texts_;  // by rank
  std::vector<std::uint32_t> places_;    // by rank
  std::vector<std::string_view> placed_;
};

}  // namespace profd
