// The maps of the sampling programs in memory, with counts of the operations on them.

#pragma once

#include <array>
#include <cstring>
#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <span>
#include <vector>

#include "collectors/unwinding/table_maps.h"

namespace profd::test {

using KeyBytes = std::array<char, sizeof(profd_table_key)>;

inline KeyBytes bytes_of(const profd_table_key& key) {
  KeyBytes bytes;
  std::memcpy(bytes.data(), &key, sizeof key);
  return bytes;
}

struct FakeMapsState {
  explicit FakeMapsState(std::uint32_t words, std::size_t rule_count = PROFD_MAX_RULES)
      : arena_words(words), rules(rule_count) {}

  std::uint32_t arena_words;
  std::vector<std::unique_ptr<std::vector<std::uint32_t>>> arenas;  // null: not made, or dropped
  std::vector<profd_rule> rules;
  std::map<KeyBytes, profd_table> tables;
  unsigned generation = 0;
  std::uint64_t grace_periods = 0;
  bool grace_periods_end = true;  // at once; else never
  unsigned reads = 0;             // of times of use
  bool out_of_memory = false;
  bool arenas_come = true;  // at once, and go at once; else never
};

class FakeTableMaps final : public TableMaps {
 public:
  explicit FakeTableMaps(FakeMapsState& state) : state_(state) {}

  Result<std::optional<std::span<std::uint32_t>>> make_arena(std::uint32_t index) override {
    if (state_.arenas.size() <= index) state_.arenas.resize(index + 1);
    if (state_.out_of_memory || state_.arenas[index]) return fail(ErrorCode::kIo, "no memory");
    if (!state_.arenas_come) return std::optional<std::span<std::uint32_t>>();
    state_.arenas[index] = std::make_unique<std::vector<std::uint32_t>>(state_.arena_words);
    return std::optional(std::span(*state_.arenas[index]));
  }
  bool drop_arena(std::uint32_t index) override {
    if (!state_.arenas_come) return false;
    state_.arenas[index].reset();
    return true;
  }
  std::span<profd_rule> rules() override { return state_.rules; }
  Result<void> put(const profd_table_key& key, const profd_table& table) override {
    state_.tables[bytes_of(key)] = table;
    return {};
  }
  void erase(const profd_table_key& key) override { state_.tables.erase(bytes_of(key)); }
  std::uint64_t used_ns(const profd_table_key& key) override {
    ++state_.reads;
    const auto known = state_.tables.find(bytes_of(key));
    return known == state_.tables.end() ? 0 : known->second.used_ns;
  }
  void raise_generation() override { ++state_.generation; }
  std::uint64_t begin_grace_period() override { return ++state_.grace_periods; }
  [[nodiscard]] bool is_over(std::uint64_t) const override { return state_.grace_periods_end; }

 private:
  FakeMapsState& state_;
};

}  // namespace profd::test
