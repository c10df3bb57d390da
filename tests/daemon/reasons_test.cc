// Every reason that the daemon gives is explained to users.

#include <string>
#include <string_view>
#include <vector>

#include <gtest/gtest.h>

#include "collectors/sampling/loss.h"
#include "collectors/sampling/unwind_stats.h"
#include "daemon/stack_end.h"
#include "daemon/window_failure.h"
#include "tests/formats/readers.h"

namespace profd {
namespace {

std::vector<std::string_view> all_reasons() {
  std::vector<std::string_view> reasons{incomplete_reason(StackClass::kCompat, 0)};
  for (unsigned end = 0; end < PROFD_END_COUNT; ++end) {
    // A stack that waits is never counted as such.
    if (reached_root(end) || end == PROFD_END_LATE) continue;
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

TEST(Reasons, AreAllInTheDocument) {
  const std::string document = test::read_file(API_DOCUMENT);
  for (const std::string_view reason : all_reasons()) {
    EXPECT_NE(document.find("\n| `" + std::string(reason) + "` |"), std::string::npos) << reason;
  }
}

}  // namespace
}  // namespace profd
