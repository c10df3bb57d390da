// A map with memory of its own, for entries that stay after a flood of others: among other memory
// each of them would keep a page of what was between them. The entries move to new memory when a
// flood of them has gone, since a pool keeps all that it ever took.
//
// erase_if() invalidates all iterators and references. Not thread-safe.

#pragma once

#include <algorithm>
#include <cstddef>
#include <map>
#include <memory>
#include <memory_resource>
#include <utility>

namespace profd {

template <class Key, class Value, class Compare = std::less<Key>>
class PoolMap {
 public:
  using Map = std::pmr::map<Key, Value, Compare>;

  [[nodiscard]] Map& operator*() { return store_->map; }
  [[nodiscard]] const Map& operator*() const { return store_->map; }
  [[nodiscard]] Map* operator->() { return &store_->map; }
  [[nodiscard]] const Map* operator->() const { return &store_->map; }

  template <class Predicate>
  void erase_if(const Predicate& predicate) {
    most_ = std::max(most_, store_->map.size());
    std::erase_if(store_->map, predicate);
    if (most_ >= kFlood && store_->map.size() <= most_ / 4) move_to_new_memory();
  }
  void clear() { *this = PoolMap(); }

 private:
  static constexpr std::size_t kFlood = 256;  // entries; less are not worth the moving

  struct Store {
    std::pmr::unsynchronized_pool_resource memory;
    Map map{&memory};
  };

  void move_to_new_memory() {
    auto store = std::make_unique<Store>();
    for (auto& [key, value] : store_->map) {
      store->map.emplace_hint(store->map.end(), key, std::move(value));
    }
    store_ = std::move(store);
    most_ = store_->map.size();
  }

  std::unique_ptr<Store> store_ = std::make_unique<Store>();
  std::size_t most_ = 0;  // entries since the memory is new
};

}  // namespace profd
