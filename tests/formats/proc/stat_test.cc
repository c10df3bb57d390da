#include "formats/proc/stat.h"

#include <sys/prctl.h>
#include <unistd.h>

#include <string>

#include <gtest/gtest.h>

namespace profd {
namespace {

constexpr const char* kBehindName =
    " S 1200 4711 4711 -1 -1 4194560 11 12 13 14 150 160 17 18 -20 0 1 0 22222 23 24 25\n";

TEST(ProcessStat, ReadsTheFieldsBehindAnyName) {
  for (const char* name : {"cat", "", " ", "a b", ")", "(", "a) S 1 2 3 4 5 6 7 (", "\xff\x01",
                           "x\\ny", "tmux: server", ") R 1 (", ")))"}) {
    const auto stat = parse_process_stat("4711 (" + std::string(name) + ")" + kBehindName);
    ASSERT_TRUE(stat) << name;
    EXPECT_EQ(*stat, (ProcessStat{.parent_pid = 1200,
                                  .flags = 4194560,
                                  .user_ticks = 150,
                                  .system_ticks = 160,
                                  .start_ticks = 22222}))
        << name;
  }
}

TEST(ProcessStat, KnowsKernelThreadsByTheirFlag) {
  EXPECT_TRUE(read_process_stat("/proc/2/stat")->is_kernel_thread()) << "kthreadd";
  EXPECT_FALSE(read_process_stat("/proc/self/stat")->is_kernel_thread());
}

TEST(ProcessStat, RefusesTextsOfAnotherForm) {
  const std::string whole = "1 (a)" + std::string(kBehindName);
  for (std::size_t size = 0; size <= whole.find("22222"); ++size) {
    const auto stat = parse_process_stat(whole.substr(0, size));
    ASSERT_FALSE(stat) << whole.substr(0, size);
    EXPECT_EQ(stat.error().code, ErrorCode::kMalformed);
  }
  for (const char* text : {"1 a S 1 2 3 4 5 6 7 8 9 10 11 12 13 14 15 16 17 18 19 20",
                           "1 (a) S x 2 3 4 5 6 7 8 9 10 11 12 13 14 15 16 17 18 19 20",
                           "1 (a) S 4294967296 2 3 4 5 6 7 8 9 10 11 12 13 14 15 16 17 18 19 20",
                           "1 (a) S 1 2 3 4 5 -6 7 8 9 10 11 12 13 14 15 16 17 18 19 20"}) {
    EXPECT_FALSE(parse_process_stat(text)) << text;
  }
}

TEST(ProcessStat, ReadsTheTestsOwnProcessWithAHostileName) {
  const auto before = read_process_stat("/proc/thread-self/stat");
  ASSERT_EQ(::prctl(PR_SET_NAME, ") R 1\n2 ("), 0);
  const auto stat = read_process_stat("/proc/thread-self/stat");
  ::prctl(PR_SET_NAME, "formats_test");
  ASSERT_TRUE(stat) << stat.error().message;
  EXPECT_EQ(stat->parent_pid, static_cast<std::uint32_t>(::getppid()));
  EXPECT_GT(stat->start_ticks, 0U);
  EXPECT_EQ(stat->start_ticks, before->start_ticks);
}

}  // namespace
}  // namespace profd
