#include "collectors/bpf/object_errors.h"

#include <cerrno>
#include <string_view>
#include <vector>

#include <gmock/gmock.h>

namespace profd {
namespace {

using testing::HasSubstr;
using testing::Not;

std::vector<char> log_of(std::string_view text) {
  std::vector<char> log(text.begin(), text.end());
  log.resize(4096);
  return log;
}

// Finds "run as root" where root runs it, and the exit status of a missing right.
TEST(ObjectErrors, WhatTheVerifierRefusesTheKernelLacks) {
  const Error refused = load_error("no programs", -EACCES, log_of("R1 invalid mem access"));
  EXPECT_EQ(refused.code, ErrorCode::kUnsupported);
  EXPECT_THAT(refused.message, HasSubstr("R1 invalid mem access"));
  EXPECT_EQ(refused.hint, "");
  EXPECT_EQ(load_error("no programs", -ENOENT, log_of("")).code, ErrorCode::kUnsupported);
}

// The texts are those of Linux 6.1 and 6.12 (check_helper_call). Finds the end of a log, from which
// nobody sees that lockdown is the reason.
TEST(ObjectErrors, LockdownIsNamed) {
  for (const char* const text :
       {"12: (85) call bpf_probe_read_user#112\nunknown func bpf_probe_read_user#112\nprocessed 12",
        "unknown func bpf_probe_read#4",
        "program of this type cannot use helper bpf_probe_read_user#112"}) {
    const Error refused = load_error("no programs", -EINVAL, log_of(text));
    EXPECT_EQ(refused.code, ErrorCode::kUnsupported);
    EXPECT_THAT(refused.message, HasSubstr("lockdown"));
    EXPECT_THAT(refused.hint, HasSubstr("lockdown=integrity"));
  }
  const Error other = load_error("no programs", -EINVAL, log_of("unknown func bpf_new_helper#9"));
  EXPECT_THAT(other.message, Not(HasSubstr("lockdown")));
}

// Finds "No such process".
TEST(ObjectErrors, AMissingBtfIsNamed) {
  const Error missing = load_error("no programs", -ESRCH, log_of(""));
  EXPECT_EQ(missing.code, ErrorCode::kUnsupported);
  EXPECT_THAT(missing.message, HasSubstr("BTF"));
  EXPECT_THAT(missing.message, Not(HasSubstr("process")));
  EXPECT_THAT(missing.hint, HasSubstr("CONFIG_DEBUG_INFO_BTF"));
}

TEST(ObjectErrors, AMissingRightIsOne) {
  for (const int code : {-EPERM, -EACCES}) {
    const Error denied = load_error("no programs", code, log_of(""));
    EXPECT_EQ(denied.code, ErrorCode::kPermissionDenied);
    EXPECT_THAT(denied.hint, HasSubstr("CAP_BPF"));
  }
}

}  // namespace
}  // namespace profd
