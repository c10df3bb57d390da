#include "collectors/bpf/object_errors.h"

#include <cerrno>
#include <string_view>
#include <vector>

#include <gmock/gmock.h>

namespace profd {
namespace {

using testing::HasSubstr;

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

TEST(ObjectErrors, AMissingRightIsOne) {
  for (const int code : {-EPERM, -EACCES}) {
    const Error denied = load_error("no programs", code, log_of(""));
    EXPECT_EQ(denied.code, ErrorCode::kPermissionDenied);
    EXPECT_THAT(denied.hint, HasSubstr("CAP_BPF"));
  }
}

}  // namespace
}  // namespace profd
