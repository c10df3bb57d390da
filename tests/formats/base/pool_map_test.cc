// What a PoolMap takes from the allocator while a flood of entries comes and goes.

#include "formats/base/pool_map.h"

#include <cstddef>
#include <memory_resource>
#include <string>

#include <gtest/gtest.h>

namespace profd {
namespace {

class CountedMemory : public std::pmr::memory_resource {
 public:
  [[nodiscard]] std::size_t bytes() const { return bytes_; }

 private:
  void* do_allocate(std::size_t bytes, std::size_t alignment) override {
    bytes_ += bytes;
    return std::pmr::new_delete_resource()->allocate(bytes, alignment);
  }
  void do_deallocate(void* memory, std::size_t bytes, std::size_t alignment) override {
    bytes_ -= bytes;
    std::pmr::new_delete_resource()->deallocate(memory, bytes, alignment);
  }
  [[nodiscard]] bool do_is_equal(const memory_resource& other) const noexcept override {
    return this == &other;
  }

  std::size_t bytes_ = 0;
};

class PoolMapTest : public testing::Test {
 protected:
  PoolMapTest() { std::pmr::set_default_resource(&memory_); }
  ~PoolMapTest() override { std::pmr::set_default_resource(nullptr); }

  CountedMemory memory_;
};

TEST_F(PoolMapTest, MemoryOfAFloodIsGivenBackAndWhatStaysIsUnchanged) {
  PoolMap<int, std::pmr::string> map;
  const auto text_of = [](int number) { return "a text of some length " + std::to_string(number); };
  const auto add = [&](int number) { map->try_emplace(number, text_of(number)); };
  for (int i = 0; i < 10; ++i) add(i);
  const std::size_t few = memory_.bytes();
  for (int i = 10; i < 10'000; ++i) add(i);
  const std::size_t flood = memory_.bytes();
  EXPECT_GT(flood, 10 * few);
  map.erase_if([](const auto& entry) { return entry.first % 1000 != 7; });
  EXPECT_LE(memory_.bytes(), 2 * few);
  ASSERT_EQ(map->size(), 10U);
  for (const auto& [number, text] : *map) EXPECT_EQ(text, text_of(number).c_str());
  map.clear();
  EXPECT_TRUE(map->empty());
}

TEST_F(PoolMapTest, WhatShrinksInStepsIsGivenBackToo) {
  PoolMap<int, int> map;
  for (int i = 0; i < 10'000; ++i) map->try_emplace(i, i);
  const std::size_t flood = memory_.bytes();
  for (int left = 10'000; left > 10; left -= left / 4 + 1) {
    map.erase_if([left](const auto& entry) { return entry.first > left; });
  }
  EXPECT_LT(memory_.bytes(), flood / 8);
}

}  // namespace
}  // namespace profd
