// What all attacks at once do to root and to profd: printed, and held to the limits of the long
// form. In the short form what depends on other programs of the host is only printed.

#pragma once

#include <sys/types.h>

#include <algorithm>
#include <chrono>
#include <cstdint>
#include <cstdio>
#include <optional>
#include <string>
#include <vector>

#include <gmock/gmock.h>

#include "formats/api/session_summary.h"
#include "formats/api/status_info.h"
#include "tests/e2e/usage_log.h"
#include "tests/hostile/attack.h"
#include "tests/hostile/roots_recordings.h"

namespace profd::e2e {

inline constexpr std::uint64_t kMemoryAboveIdleKib = 128 << 10;

struct UsageInAttack {
  std::uint64_t most_kib = 0;
  std::uint64_t most_descriptors = 0;
  std::vector<MemoryReading> memory{};

  void add(const Usage& now) {
    most_kib = std::max(most_kib, now.resident_kib);
    most_descriptors = std::max(most_descriptors, now.descriptors);
    memory.push_back({.at = std::chrono::steady_clock::now(), .resident_kib = now.resident_kib});
  }
};

// `slowest_of_profctl` is a whole `profctl record -d 1s`, with all that profctl and the test waited
// for a CPU.
inline void expect_recordings(const RootsRecordings::Figures& recordings,
                              std::chrono::steady_clock::duration slowest_of_profctl) {
  constexpr std::int64_t kLimitMs = 2'000;
  constexpr std::int64_t kHangMs = 30'000;
  EXPECT_THAT(recordings.failed, ::testing::IsEmpty());
  EXPECT_THAT(recordings.lost, ::testing::IsEmpty()) << "root's own samples";
  const std::vector<std::int64_t>& beyond_ms = recordings.beyond_ms;
  ASSERT_FALSE(beyond_ms.empty());
  const auto profctl_ms =
      std::chrono::duration_cast<std::chrono::milliseconds>(slowest_of_profctl).count() - 1'000;
  std::printf(
      "%zu recordings of root, of a second each, took %lld ms beyond it in the median, %lld ms at "
      "most; by profctl, with its waits for a CPU, %lld ms at most\n",
      beyond_ms.size(), static_cast<long long>(beyond_ms[beyond_ms.size() / 2]),
      static_cast<long long>(beyond_ms.back()), static_cast<long long>(profctl_ms));
  EXPECT_LE(beyond_ms.back(), is_long_attack() ? kLimitMs : kHangMs);
}

// Memory that grows as it did in the second half may not reach its limit in a further attack of the
// same length. A bound on the slope alone would judge noise: the medians of a minute differ by a
// few megabytes, which in a quarter of an hour is a slope of some 100 KiB a minute. A leak that is
// smaller than this finds is still there after the attack, where 10 MiB are allowed.
inline void expect_level_memory(const UsageInAttack& seen, std::uint64_t idle_kib) {
  // The caches of the daemon fill in the first minutes.
  constexpr std::chrono::minutes kShortestToJudge{10};
  constexpr double kSecondsOfMinute = 60;
  const std::optional<MemoryTrend> trend = trend_of_second_half(seen.memory);
  const std::chrono::seconds attack = attack_time(std::chrono::seconds(0));
  if (!trend) {
    EXPECT_LT(attack, kShortestToJudge) << "too few readings of memory";
    return;
  }
  std::printf("resident memory changes by %+.0f KiB a minute in the second half, to %.0f KiB\n",
              trend->kib_a_minute, trend->last_kib);
  if (attack < kShortestToJudge) return;
  const double minutes = static_cast<double>(attack.count()) / kSecondsOfMinute;
  EXPECT_LE(trend->last_kib + trend->kib_a_minute * minutes,
            static_cast<double>(idle_kib + kMemoryAboveIdleKib));
}

inline std::string counts_or_none(const CountsByReason& counts) {
  return counts.empty() ? "none" : text_of(counts);
}

// What was lost of users' sessions, and what each user was refused. `attacker` is a user who was
// refused something; root never is.
inline void expect_refusals(const StatusInfo& status, uid_t attacker) {
  std::printf("samples lost of users' sessions: %s; mapping records left out: %s\n",
              counts_or_none(status.ledger.lost).c_str(),
              counts_or_none(status.mapping_records_lost).c_str());
  std::vector<uid_t> refused;
  refused.reserve(status.users.size());
  for (const StatusInfo::User& user : status.users) {
    if (user.uid) refused.push_back(*user.uid);
    const std::string name = user.uid ? "uid " + std::to_string(*user.uid) : "further users";
    std::printf("refused to %s, or dropped: %s\n", name.c_str(), text_of(user.refused).c_str());
  }
  EXPECT_THAT(refused, ::testing::Contains(attacker));
  EXPECT_THAT(refused, ::testing::Not(::testing::Contains(uid_t{0})));
  EXPECT_EQ(status.continuous.lost_samples, 0U) << "root's own samples";
}

}  // namespace profd::e2e
