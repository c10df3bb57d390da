// The documents explain every reason that the daemon counts by.

#include <string>
#include <string_view>
#include <vector>

#include <gtest/gtest.h>

#include "collectors/bpf/sample.h"
#include "collectors/jit/stats.h"
#include "collectors/unwinding/stats.h"
#include "daemon/control/status.h"
#include "daemon/history/failure.h"
#include "daemon/samples/stack_table.h"
#include "formats/api/error_json.h"
#include "formats/jit/jitdump_reader.h"
#include "formats/xray/detach_reason.h"
#include "formats/xray/report.h"
#include "tests/formats/readers.h"

namespace profd {
namespace {

std::vector<std::string_view> reasons_of_samples() {
  std::vector<std::string_view> reasons{incomplete_reason(StackClass::kCompat, 0)};
  for (unsigned end = 0; end < PROFD_END_COUNT; ++end) {
    // A deferred stack gets its end before it is counted.
    if (reached_root(end) || end == PROFD_END_DEFERRED) continue;
    reasons.push_back(incomplete_reason(StackClass::kUser, end));
  }
  for (std::size_t i = 0; i < kLossCount; ++i) reasons.push_back(loss_name(static_cast<Loss>(i)));
  for (std::size_t i = 0; i < kTableRefusalCount; ++i) {
    reasons.push_back(name_of(static_cast<TableRefusal>(i)));
  }
  for (std::size_t i = 0; i < kWindowFailureCount; ++i) {
    reasons.push_back(name_of(static_cast<WindowFailure>(i)));
  }
  return reasons;
}

std::vector<std::string_view> reasons_of_jit_files() {
  std::vector<std::string_view> reasons;
  for (std::size_t i = 0; i < kJitRefusalCount; ++i) {
    reasons.push_back(name_of(static_cast<JitRefusal>(i)));
  }
  for (std::size_t i = 0; i < kJitDumpFaults; ++i) {
    reasons.push_back(name_of(static_cast<JitDumpFault>(i)));
  }
  return reasons;
}

std::vector<std::string_view> reasons_of_recorded_calls() {
  std::vector<std::string_view> reasons;
  for (std::size_t i = 0; i < xray::kIssues; ++i) {
    reasons.push_back(xray::issue_name(static_cast<xray::Issue>(i)));
  }
  // From 1, since kAsAsked is not counted.
  for (std::size_t i = 1; i < xray::kDetachReasons; ++i) {
    reasons.push_back(xray::name_of(static_cast<xray::DetachReason>(i)));
  }
  return reasons;
}

std::vector<std::string_view> codes_of_errors() {
  std::vector<std::string_view> codes;
  for (int code = 0; code <= static_cast<int>(ErrorCode::kInternal); ++code) {
    codes.push_back(error_code_name(static_cast<ErrorCode>(code)));
  }
  return codes;
}

// A row of a table may begin with the reason, or have several reasons.
void expect_in(const std::string& name, const std::vector<std::string_view>& reasons,
               const char* before, const char* behind) {
  const std::string document = test::read_file(std::string(DOCUMENTS) + "/" + name);
  for (const std::string_view reason : reasons) {
    EXPECT_NE(document.find(before + std::string(reason) + behind), std::string::npos)
        << name << " does not explain " << reason;
  }
}

TEST(Reasons, OfSamplesAreAllInTheDocument) {
  expect_in("api.md", reasons_of_samples(), "\n| `", "` |");
}

TEST(Reasons, OfNamesAreAllInTheDocument) {
  expect_in("api.md", name_sources(), "`", "`");
  expect_in("api.md", debug_file_places(), "`", "`");
  expect_in("api.md", debug_file_refusals(), "\n| `", "` |");
  expect_in("api.md", dwarf_losses(), "\n| `", "` |");
}

TEST(Reasons, OfInterpretersAreAllInTheDocument) {
  expect_in("api.md", interpreter_losses(), "`", "`");
  expect_in("api.md", interpreter_refusals(), "`", "`");
}

TEST(Reasons, OfErrorsAreAllInTheDocument) { expect_in("api.md", codes_of_errors(), "`", "`"); }

TEST(Reasons, OfRecordedCallsAreAllInTheDocument) {
  expect_in("xray.md", reasons_of_recorded_calls(), "\n| `", "` |");
}

TEST(Reasons, OfFilesOfRuntimesAreAllInTheDocument) {
  expect_in("jit.md", reasons_of_jit_files(), "`", "`");
}

}  // namespace
}  // namespace profd
