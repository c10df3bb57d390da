#include "collectors/sampling/process_list.h"

#include <set>
#include <vector>

#include <gtest/gtest.h>

namespace profd {
namespace {

profd_task process(std::uint32_t tgid, std::uint32_t parent, std::uint64_t start_ns) {
  return {.start_ns = start_ns,
          .global_tgid = tgid,
          .tgid = tgid,
          .parent_global_tgid = parent,
          .exec_id = 1};
}

std::multiset<std::uint32_t> tgids_of(const std::vector<profd_task>& processes) {
  std::multiset<std::uint32_t> tgids;
  for (const profd_task& each : processes) tgids.insert(each.global_tgid);
  return tgids;
}

TEST(ProcessListTest, FindsTheChildrenOfAProcess) {
  const ProcessList list({process(1, 0, 10), process(9, 1, 50), process(3, 1, 20),
                          process(7, 3, 40), process(5, 1, 30)});
  EXPECT_EQ(tgids_of(list.children_of(process(1, 0, 10))), (std::multiset<std::uint32_t>{3, 5, 9}));
  EXPECT_EQ(tgids_of(list.children_of(process(3, 1, 20))), (std::multiset<std::uint32_t>{7}));
  EXPECT_TRUE(list.children_of(process(7, 3, 40)).empty());
  EXPECT_TRUE(list.children_of(process(2, 1, 15)).empty());
}

TEST(ProcessListTest, AnOlderProcessIsNoChild) {
  const ProcessList list({process(1, 0, 10), process(3, 1, 20), process(8, 3, 15)});
  EXPECT_TRUE(list.children_of(process(3, 1, 20)).empty());
}

// A list that is not of one moment may have a cycle.
TEST(ProcessListTest, NoProcessIsItsOwnDescendant) {
  const ProcessList list({process(3, 4, 20), process(4, 3, 30)});
  std::vector<profd_task> descendants;
  std::vector<profd_task> open{process(3, 4, 20)};
  while (!open.empty() && descendants.size() < 10) {
    const auto children = list.children_of(open.back());
    open.pop_back();
    open.insert(open.end(), children.begin(), children.end());
    descendants.insert(descendants.end(), children.begin(), children.end());
  }
  EXPECT_EQ(tgids_of(descendants), (std::multiset<std::uint32_t>{4}));
}

TEST(ProcessListTest, ALaterProcessWithTheTgidIsAnotherOne) {
  const ProcessList list({process(3, 1, 20), process(5, 1, 30)});
  EXPECT_TRUE(list.contains(process(3, 1, 20)));
  EXPECT_FALSE(list.contains(process(3, 1, 21)));
  EXPECT_FALSE(list.contains(process(4, 1, 20)));
}

}  // namespace
}  // namespace profd
