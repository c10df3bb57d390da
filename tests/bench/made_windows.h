// What the files of the history have besides samples, for benches that make such files.

#pragma once

#include <chrono>
#include <cstddef>
#include <cstdint>
#include <string>
#include <utility>

#include "daemon/history/files.h"
#include "daemon/profiles/process_labels.h"
#include "formats/api/session_summary.h"
#include "formats/base/time_text.h"
#include "formats/profile/pprof_merge.h"
#include "formats/profile/pprof_profile.h"
#include "formats/profile/pprof_reader.h"
#include "formats/profile/pprof_writer.h"
#include "tests/bench/synthetic_host.h"

namespace profd::bench {

struct DescribedWindow {
  SessionSummary summary;
  WindowRecord record;
};

// The processes and sums of a window or an hour, without its time.
inline DescribedWindow describe(const PprofProfile& profile) {
  DescribedWindow window;
  SessionSummary& summary = window.summary;
  summary.event = "cpu";
  summary.period_us = kPeriodNs / 1000;
  for (std::uint32_t set = 0; set < profile.labels_count(); ++set) {
    ProcessLabels labels = labels_of(profile, set);
    summary.profiles.emplace_back();
    summary.profiles.back().pid = labels.pid;
    summary.profiles.back().comm = labels.comm;
    window.record.profiles.emplace_back().labels = std::move(labels);
  }
  for (std::size_t i = 0; i < profile.samples().size(); ++i) {
    const auto samples = static_cast<std::uint64_t>(profile.values(i)[0]);
    summary.profiles[profile.samples()[i].labels].samples += samples;
    summary.ledger.taken += samples;
    summary.ledger.written += samples;
  }
  return window;
}

inline void set_times(DescribedWindow& window, std::chrono::system_clock::time_point start,
                      std::chrono::seconds lasted) {
  window.record.start = start;
  window.record.end = start + lasted;
  window.summary.session = window_name(start);
  window.summary.started = utc_text(start);
  window.summary.seconds = static_cast<double>(lasted.count());
}

// The samples of an hour's file, which have no addresses.
inline PprofProfile make_hour(Host& host) {
  PprofMerge hour({.drop_addresses = true});
  const std::string window = encode_pprof(host.window(Host::kStacksOfHour));
  hour.add(*read_pprof_tables(window)).value();
  return std::move(hour).take();
}

}  // namespace profd::bench
