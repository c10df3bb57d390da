#include "daemon/control/metrics.h"

#include <string>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "daemon/control/status.h"
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
                       .hours = 9,
                       .disk_bytes = 8192,
                       .oldest = "2026-01-02T14:05:00Z",
                       .last_written = "2026-01-02T14:06:00Z",
                       .waiting = 2,
                       .malformed = 1,
                       .failed = {{"no_space", 5}},
                       .lost_samples = 1234,
                       .over_share_samples = 77};
  const std::string text = metrics_of(status, {});
  for (const char* line :
       {"profd_window_samples_over_share_total 77", "profd_continuous_enabled 1",
        "profd_windows 42", "profd_history_hours 9", "profd_windows_waiting 2",
        "profd_windows_malformed 1", "profd_windows_failed_total{reason=\"no_space\"} 5",
        "profd_window_samples_lost_total 1234", "profd_window_oldest_timestamp_seconds 1767362700",
        "profd_window_last_written_timestamp_seconds 1767362760", "profd_history_bytes 8192"}) {
    EXPECT_THAT(text, HasSubstr(std::string("\n") + line + "\n"));
  }
}

TEST(Metrics, HaveTheAppsAndTheirDoors) {
  StatusInfo status;
  status.xray.apps = 3;
  status.xray.apps_refused = 4;
  status.xray.doors_replaced = 5;
  status.xray.closers_replaced = 6;
  status.xray.doors_stuck = 7;
  const std::string text = metrics_of(status, {});
  for (const char* line :
       {"profd_xray_apps 3", "profd_xray_apps_refused_total 4", "profd_xray_doors_replaced_total 5",
        "profd_xray_closers_replaced_total 6", "profd_xray_doors_stuck 7"}) {
    EXPECT_THAT(text, HasSubstr(std::string("\n") + line + "\n"));
  }
}

TEST(Metrics, HaveTheCountsOfBlocksFromTheStart) {
  StatusInfo status;
  EXPECT_THAT(metrics_of(status, {}), HasSubstr("\nprofd_off_cpu_walks_total 0\n"));
  status.off_cpu = describe_off_cpu({.threads_watched = 1,
                                     .threads_refused = 2,
                                     .walks = 3,
                                     .walks_by_chance = 4,
                                     .scale = 5,
                                     .ends_lost = 6,
                                     .open_blocks = 7,
                                     .open_bytes = 8});
  const std::string text = metrics_of(status, {});
  for (const char* line :
       {"profd_off_cpu_threads_watched_total 1", "profd_off_cpu_threads_refused_total 2",
        "profd_off_cpu_walks_total 3", "profd_off_cpu_walks_by_chance_total 4",
        "profd_off_cpu_scale 5", "profd_off_cpu_ends_lost_total 6", "profd_off_cpu_open_blocks 7",
        "profd_off_cpu_open_bytes 8"}) {
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
    EXPECT_THAT(text,
                HasSubstr("profd_off_cpu_windows_failed_total{reason=\"" + reason + "\"} 0\n"));
  }
  EXPECT_THAT(text, HasSubstr("\nprofd_window_last_written_timestamp_seconds 0\n"));
}

// Mutations: a count of stacks or frames among the losses, a verdict that is none among the
// refusals, a reason without a series.
TEST(Metrics, HaveTheInterpretersAndWhatIsNotWhole) {
  InterpreterStats stats;
  stats.kernel[PROFD_INTERPRETED_STACKS] = 10;
  stats.kernel[PROFD_INTERPRETED_FRAMES] = 400;
  stats.kernel[PROFD_INTERPRETED_CODES_RATE] = 3;
  stats.woven.unanchored = 4;
  stats.codes.codes = 5;
  stats.verdicts[static_cast<std::size_t>(RuntimeVerdict::kNone)] = 900;
  stats.verdicts[static_cast<std::size_t>(RuntimeVerdict::kKnown)] = 2;
  stats.verdicts[static_cast<std::size_t>(RuntimeVerdict::kFreeThreaded)] = 1;
  stats.files = {{.path = "/usr/bin/a", .text = "python 3.11.2"},
                 {.path = "/usr/bin/b", .text = "python 3.12.1", .has_room = false}};
  StatusInfo status;
  status.interpreters = describe_interpreters(stats, true);
  StatusReasons reasons;
  reasons.interpreted_lost = interpreter_losses();
  reasons.interpreters_refused = interpreter_refusals();
  const std::string text = metrics_of(status, reasons);
  for (const char* line :
       {"profd_interpreters_supported 1", "profd_interpreters_total 2",
        "profd_interpreters_refused_total{reason=\"free_threaded\"} 1",
        "profd_interpreters_refused_total{reason=\"no_number\"} 1",
        "profd_interpreters_refused_total{reason=\"unknown_version\"} 0",
        "profd_interpreted_stacks_total 10", "profd_interpreted_frames_total 400",
        "profd_interpreted_lost_total{reason=\"rate\"} 3",
        "profd_interpreted_lost_total{reason=\"unanchored\"} 4",
        "profd_interpreted_lost_total{reason=\"not_code\"} 0", "profd_interpreted_codes 5"}) {
    EXPECT_THAT(text, HasSubstr(std::string("\n") + line + "\n"));
  }
  EXPECT_THAT(text, testing::Not(HasSubstr("reason=\"none\"")));
  EXPECT_THAT(text, testing::Not(HasSubstr("reason=\"stacks\"")));
  EXPECT_EQ(status.interpreters.files.size(), 2U);
  EXPECT_EQ(status.interpreters.files[1].verdict, "no_number");
  EXPECT_TRUE(describe_interpreters(stats, false).files.empty());
}

TEST(Metrics, HaveTheSourcesOfNamesAndTheCostOfTheSymbolizer) {
  StatusInfo status;
  status.names = {.samples = 10,
                  .fully_named = 6,
                  .sources = {{"symtab", 7}, {"gap", 3}},
                  .cached_files = 4,
                  .cached_bytes = 5,
                  .looked_up = 15,
                  .debug_files = {.found = {{"cache", 16}}, .refused = {{"late", 17}}},
                  .lines = {.answered = 11,
                            .addresses_lost = {{"no_lines", 12}},
                            .files_refused = {{"zstd", 13}},
                            .cpu_seconds = 0.25,
                            .failures = 14}};
  StatusReasons reasons;
  reasons.name_sources = name_sources();
  reasons.debug_refusals = debug_file_refusals();
  reasons.dwarf_losses = dwarf_losses();
  const std::string text = metrics_of(status, reasons);
  for (const char* line :
       {"profd_named_samples_total{source=\"symtab\"} 7",
        "profd_named_samples_total{source=\"gap\"} 3",
        "profd_named_samples_total{source=\"jit\"} 0", "profd_fully_named_samples_total 6",
        "profd_name_lookups_total 15", "profd_debug_files_total{place=\"cache\"} 16",
        "profd_debug_files_refused_total{reason=\"late\"} 17",
        "profd_debug_files_refused_total{reason=\"other_checksum\"} 0", "profd_name_cache_files 4",
        "profd_name_cache_bytes 5", "profd_dwarf_addresses_total 11",
        "profd_dwarf_addresses_lost_total{reason=\"no_lines\"} 12",
        "profd_dwarf_files_refused_total{reason=\"zstd\"} 13",
        "profd_dwarf_files_refused_total{reason=\"no_dwarf\"} 0",
        "profd_symbolizer_cpu_seconds_total 0.25", "profd_symbolizer_failures_total 14"}) {
    EXPECT_THAT(text, HasSubstr(std::string("\n") + line + "\n"));
  }
}

}  // namespace
}  // namespace profd
