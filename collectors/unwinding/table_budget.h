// What unwind tables use, and whose they are. A table counts for its payer: the user whose process
// maps the file, or the owner of the file where that process is root's.
//
// Anyone may use what is free. When there is no room, tables of a user who is over the share are
// evicted, also those that are in use, for root and for users who stay within theirs. The share of
// a user other than root is an eighth of the total, or less if there are more than four such users:
// together they have half. Root has no share.

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

class TableBudget {
 public:
  explicit TableBudget(const TableUse& limit) : limit_(limit) {}

  [[nodiscard]] bool has_room(const TableUse& more) const;
  // Whether the user is over the share with so much more, or less.
  [[nodiscard]] bool is_over_share(std::uint32_t payer, const TableUse& more = {},
                                   const TableUse& less = {}) const;
  void add(std::uint32_t payer, const TableUse& use);
  void remove(std::uint32_t payer, const TableUse& use);

 private:
  TableUse limit_;
  TableUse used_;
  std::map<std::uint32_t, TableUse> by_payer_;
};

}  // namespace profd
