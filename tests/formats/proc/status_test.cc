#include "formats/proc/status.h"

#include <sys/prctl.h>
#include <unistd.h>

#include <csignal>
#include <string>

#include <gtest/gtest.h>

namespace profd {
namespace {

// As Linux 6.18 writes it, with the lines in between left out.
constexpr const char* kNginx =
    "Name:\tnginx\n"
    "Umask:\t0022\n"
    "State:\tS (sleeping)\n"
    "Pid:\t4711\n"
    "PPid:\t1\n"
    "Uid:\t33\t34\t35\t36\n"
    "Gid:\t43\t44\t45\t46\n"
    "Groups:\t33 1000 \n"
    "NSpid:\t4711\t88\t7\n"
    "SigCgt:\t0000000198016a07\n"
    "CapInh:\t0000000000000000\n"
    "CapPrm:\t000001ffffffffff\n"
    "CapEff:\t0000000000000400\n";

std::string with(std::string text, const std::string& old_line, const std::string& new_line) {
  const std::size_t at = text.find(old_line);
  EXPECT_NE(at, text.npos) << old_line;
  return text.replace(at, old_line.size(), new_line);
}

TEST(ProcessStatus, ReadsIdsSignalsAndCapabilities) {
  const auto status = parse_process_status(kNginx);
  ASSERT_TRUE(status) << status.error().message;
  EXPECT_EQ(*status, (ProcessStatus{.uids = {33, 34, 35, 36},
                                    .gids = {43, 44, 45, 46},
                                    .namespace_pid = 7,
                                    .caught_signals = 0x198016a07,
                                    .permitted_capabilities = 0x1ffffffffff,
                                    .effective_capabilities = 0x400}));
  EXPECT_EQ(status->real_uid(), 33U);
  EXPECT_EQ(status->effective_uid(), 34U);
  EXPECT_EQ(status->effective_gid(), 44U);
}

TEST(ProcessStatus, TakesThePidWhereTheKernelHasNoPidNamespaces) {
  EXPECT_EQ(parse_process_status(with(kNginx, "NSpid:\t4711\t88\t7\n", ""))->namespace_pid, 4711U);
}

// The kernel escapes line feeds in names, so that only the first line has text of the process.
TEST(ProcessStatus, IgnoresTheNameOfTheProcess) {
  for (const char* name :
       {"Uid:\t0\t0\t0\t0", "\\nUid:\t0\t0\t0\t0", "a) b (c", "", ":\t", "\xff"}) {
    const auto status = parse_process_status(with(kNginx, "nginx", name));
    ASSERT_TRUE(status) << name;
    EXPECT_EQ(status->effective_uid(), 34U) << name;
  }
}

TEST(ProcessStatus, RefusesATextWithoutOneOfTheLines) {
  for (const char* line :
       {"Uid:\t33\t34\t35\t36\n", "Gid:\t43\t44\t45\t46\n", "SigCgt:\t0000000198016a07\n",
        "CapPrm:\t000001ffffffffff\n", "CapEff:\t0000000000000400\n"}) {
    const auto status = parse_process_status(with(kNginx, line, ""));
    ASSERT_FALSE(status) << line;
    EXPECT_EQ(status.error().code, ErrorCode::kMalformed);
  }
}

TEST(ProcessStatus, RefusesLinesOfAnotherForm) {
  struct Case {
    const char* line;
    const char* malformed;
  };
  for (const Case& c : {Case{"Uid:\t33\t34\t35\t36", "Uid:\t33\t34\t35"},
                        {"Uid:\t33\t34\t35\t36", "Uid:\t33\t34\t35\t"},
                        {"Uid:\t33\t34\t35\t36", "Uid: 33\t34\t35\t36"},
                        {"Uid:\t33\t34\t35\t36", "Uid:\t-1\t34\t35\t36"},
                        {"Uid:\t33\t34\t35\t36", "Uid:\t4294967296\t34\t35\t36"},
                        {"Gid:\t43", "Gid:\tx43"},
                        {"CapPrm:\t000001ffffffffff", "CapPrm:\t"},
                        {"CapPrm:\t000001ffffffffff", "CapPrm:\t10000000000000000"},
                        {"SigCgt:\t0000000198016a07", "SigCgt:\tg"}}) {
    EXPECT_FALSE(parse_process_status(with(kNginx, c.line, c.malformed))) << c.malformed;
  }
  EXPECT_FALSE(parse_process_status(""));
  EXPECT_FALSE(parse_process_status("\n"));
}

TEST(ProcessStatus, ReadsTheTestsOwnProcessWithAHostileName) {
  ASSERT_EQ(::prctl(PR_SET_NAME, "a\nUid:\t7) (\\"), 0);
  auto* const before = std::signal(SIGUSR2, [](int) {});
  const auto status = read_process_status("/proc/thread-self/status");
  std::signal(SIGUSR2, before);
  ::prctl(PR_SET_NAME, "formats_test");
  ASSERT_TRUE(status) << status.error().message;
  EXPECT_EQ(status->real_uid(), ::getuid());
  EXPECT_EQ(status->effective_uid(), ::geteuid());
  EXPECT_EQ(status->effective_gid(), ::getegid());
  EXPECT_EQ(status->namespace_pid, static_cast<std::uint32_t>(::gettid()));
  EXPECT_NE(status->caught_signals & std::uint64_t{1} << (SIGUSR2 - 1), 0U);
}

TEST(ProcessStatus, SaysThatThereIsNoSuchProcess) {
  EXPECT_EQ(read_process_status("/proc/4194305/status").error().code, ErrorCode::kNotFound);
}

}  // namespace
}  // namespace profd
