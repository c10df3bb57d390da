// Limits of what unwind tables may use: the files of all users but root together half of the total,
// the files of one such user a quarter.

#pragma once

#include <cstdint>
#include <map>

namespace profd {

struct TableUse {
  std::uint64_t words = 0;    // of arenas
  std::uint64_t entries = 0;  // of the map of tables

  TableUse& operator+=(const TableUse& other);
  TableUse& operator-=(const TableUse& other);
};

// Whose tables must be evicted to make room: any, those of all users but root, those of one owner.
enum class TableShortage { kNone, kOfAll, kOfOthersThanRoot, kOfOwner };

class TableBudget {
 public:
  explicit TableBudget(const TableUse& limit) : limit_(limit) {}

  [[nodiscard]] TableShortage shortage(std::uint32_t owner, const TableUse& more) const;
  void add(std::uint32_t owner, const TableUse& use);
  void remove(std::uint32_t owner, const TableUse& use);

 private:
  [[nodiscard]] bool fits(TableUse use, const TableUse& more, unsigned share) const;

  TableUse limit_;
  TableUse used_;
  std::map<std::uint32_t, TableUse> by_owner_;
};

}  // namespace profd
