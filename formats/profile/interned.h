// Tables that hold each value once, by index. The indexes count from 0 in the order in which the
// values came.
//
// Values often come in the order of their indexes, as the tables of two windows have them in one
// order. So the one after the last is compared before anything is hashed.
//
// The hash is seeded, since processes choose the names and addresses that are kept here. Elements
// of values and lists have a function add_to(SeededHash&, const T&). Adding invalidates spans and
// references into a table, but not texts. Moveable; no thread affinity.

#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <optional>
#include <span>
#include <string_view>
#include <vector>

#include <boost/unordered/unordered_flat_map.hpp>

#include "formats/base/seeded_hash.h"
#include "formats/profile/text_blocks.h"

namespace profd {

// A list of values. Numbers of 32 bits go two at a time.
template <class T>
void add_all_to(SeededHash& hash, std::span<const T> list) {
  hash.add(list.size());
  for (const T& value : list) add_to(hash, value);
}
inline void add_all_to(SeededHash& hash, std::span<const std::uint32_t> list) {
  hash.add(list.size());
  std::size_t i = 0;
  for (; i + 1 < list.size(); i += 2) hash.add(std::uint64_t{list[i]} << 32 | list[i + 1]);
  if (i < list.size()) hash.add(list[i]);
}

// The indexes of a table by the hash of their values.
class HashIndex {
 public:
  // The entry with this hash for which `is_equal(index)` holds.
  template <class IsEqual>
  [[nodiscard]] std::optional<std::uint32_t> find(std::uint64_t hash,
                                                  const IsEqual& is_equal) const {
    const auto first = first_of_hash_.find(hash);
    if (first == first_of_hash_.end()) return std::nullopt;
    for (std::uint32_t at = first->second; at != kNone; at = next_of_hash_[at]) {
      if (is_equal(at)) return at;
    }
    return std::nullopt;
  }
  // The same; where there is none, the entry is added, with the index that size() had before. The
  // caller then appends the value to its own table.
  template <class IsEqual>
  std::uint32_t find_or_add(std::uint64_t hash, const IsEqual& is_equal) {
    const std::uint32_t added = size();
    std::uint32_t& first = first_of_hash_.try_emplace(hash, kNone).first->second;
    for (std::uint32_t at = first; at != kNone; at = next_of_hash_[at]) {
      if (is_equal(at)) return at;
    }
    next_of_hash_.push_back(first);
    first = added;
    return added;
  }
  [[nodiscard]] std::uint32_t size() const {
    return static_cast<std::uint32_t>(next_of_hash_.size());
  }
  // The memory in use.
  [[nodiscard]] std::size_t bytes() const {
    constexpr std::size_t kEntryBytes = sizeof(std::uint64_t) + sizeof(std::uint64_t) + 1;
    return next_of_hash_.capacity() * sizeof(std::uint32_t) +
           first_of_hash_.bucket_count() * kEntryBytes;
  }

 private:
  static constexpr std::uint32_t kNone = 0xffffffff;
  struct HashIsGood {
    using is_avalanching = void;
    std::size_t operator()(std::uint64_t hash) const noexcept { return hash; }
  };

  boost::unordered_flat_map<std::uint64_t, std::uint32_t, HashIsGood> first_of_hash_;
  std::vector<std::uint32_t> next_of_hash_;
};

template <class T>
class InternedValues {
 public:
  explicit InternedValues(std::uint64_t seed) : seed_(seed) {}

  std::uint32_t add(const T& value) {
    if (next_ < values_.size() && values_[next_] == value) return next_++;
    SeededHash hash(seed_);
    add_to(hash, value);
    const std::uint32_t index =
        index_.find_or_add(hash.value(), [&](std::uint32_t at) { return values_[at] == value; });
    if (index == values_.size()) values_.push_back(value);
    next_ = index + 1;
    return index;
  }
  [[nodiscard]] std::span<const T> all() const { return values_; }
  [[nodiscard]] const T& operator[](std::uint32_t index) const { return values_[index]; }
  [[nodiscard]] std::uint32_t size() const { return static_cast<std::uint32_t>(values_.size()); }
  [[nodiscard]] std::size_t bytes() const {
    return values_.capacity() * sizeof(T) + index_.bytes();
  }

 private:
  std::uint64_t seed_;
  HashIndex index_;
  std::vector<T> values_;
  std::uint32_t next_ = 0;  // after the one that was added or found last
};

// Lists of values, each list once.
template <class T>
class InternedLists {
 public:
  explicit InternedLists(std::uint64_t seed) : seed_(seed) {}

  // `list` does not lie in this table.
  std::uint32_t add(std::span<const T> list) {
    if (next_ < size() && std::ranges::equal((*this)[next_], list)) return next_++;
    SeededHash hash(seed_);
    add_all_to(hash, list);
    const std::uint32_t index = index_.find_or_add(
        hash.value(), [&](std::uint32_t at) { return std::ranges::equal((*this)[at], list); });
    if (index == size()) {
      values_.insert(values_.end(), list.begin(), list.end());
      ends_.push_back(values_.size());
    }
    next_ = index + 1;
    return index;
  }
  [[nodiscard]] std::span<const T> operator[](std::uint32_t index) const {
    const std::size_t begin = index == 0 ? 0 : ends_[index - 1];
    return std::span(values_).subspan(begin, ends_[index] - begin);
  }
  [[nodiscard]] std::uint32_t size() const { return static_cast<std::uint32_t>(ends_.size()); }
  [[nodiscard]] std::size_t bytes() const {
    return values_.capacity() * sizeof(T) + ends_.capacity() * sizeof(std::size_t) + index_.bytes();
  }

 private:
  std::uint64_t seed_;
  HashIndex index_;
  std::vector<T> values_;
  std::vector<std::size_t> ends_;
  std::uint32_t next_ = 0;  // after the one that was added or found last
};

class InternedTexts {
 public:
  explicit InternedTexts(std::uint64_t seed) : seed_(seed) {}

  std::uint32_t add(std::string_view text) {
    if (next_ < texts_.size() && texts_[next_] == text) return next_++;
    const std::uint32_t index =
        index_.find_or_add(hash_of(text), [&](std::uint32_t at) { return texts_[at] == text; });
    next_ = index + 1;
    if (index < texts_.size()) return index;
    texts_.push_back(blocks_.add(text));
    return index;
  }
  [[nodiscard]] std::optional<std::uint32_t> find(std::string_view text) const {
    return index_.find(hash_of(text), [&](std::uint32_t at) { return texts_[at] == text; });
  }
  [[nodiscard]] std::string_view operator[](std::uint32_t index) const { return texts_[index]; }
  [[nodiscard]] std::uint32_t size() const { return static_cast<std::uint32_t>(texts_.size()); }
  [[nodiscard]] std::size_t bytes() const {
    return texts_.capacity() * sizeof(std::string_view) + blocks_.bytes() + index_.bytes();
  }

 private:
  [[nodiscard]] std::uint64_t hash_of(std::string_view text) const {
    SeededHash hash(seed_);
    hash.add_text(text);
    return hash.value();
  }

  std::uint64_t seed_;
  HashIndex index_;
  std::vector<std::string_view> texts_;
  TextBlocks blocks_;
  std::uint32_t next_ = 0;  // after the one that was added or found last
};

}  // namespace profd
