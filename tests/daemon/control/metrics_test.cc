#include "daemon/control/metrics.h"

#include <string>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "daemon/history/failure.h"

namespace profd {
namespace {

using testing::HasSubstr;

TEST(Metrics, HaveTheCountsOfWindows) {
  StatusInfo status;
  status.continuous = {.enabled = true,
                       .frequency_hz = 19,
                       .window_seconds = 60,
                       .windows = 42,
                       .disk_bytes = 8192,
                       .oldest = "2026-01-02T14:05:00Z",
                       .last_written = "2026-01-02T14:06:00Z",
                       .waiting = 2,
                       .malformed = 1,
                       .failed = {{"no_space", 5}},
                       .lost_samples = 1234};
  const std::string text = metrics_of(status, {});
  for (const char* line :
       {"profd_continuous_enabled 1", "profd_windows 42", "profd_windows_waiting 2",
        "profd_windows_malformed 1", "profd_windows_failed_total{reason=\"no_space\"} 5",
        "profd_window_samples_lost_total 1234", "profd_window_oldest_timestamp_seconds 1767362700",
        "profd_window_last_written_timestamp_seconds 1767362760", "profd_history_bytes 8192"}) {
    EXPECT_THAT(text, HasSubstr(std::string("\n") + line + "\n"));
  }
}

TEST(Metrics, HaveEachReasonOfAFailedWindowFromTheStart) {
  StatusReasons reasons;
  for (std::size_t i = 0; i < kWindowFailureCount; ++i) {
    reasons.windows_failed.push_back(name_of(static_cast<WindowFailure>(i)));
  }
  const std::string text = metrics_of({}, reasons);
  for (const std::string_view name : reasons.windows_failed) {
    const std::string reason(name);
    EXPECT_THAT(text, HasSubstr("profd_windows_failed_total{reason=\"" + reason + "\"} 0\n"));
  }
  EXPECT_THAT(text, HasSubstr("\nprofd_window_last_written_timestamp_seconds 0\n"));
}

}  // namespace
}  // namespace profd
