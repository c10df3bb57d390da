// What the daemon says of itself: GET /v1/status of the control socket (docs/api.md).

#pragma once

#include <cstdint>
#include <string>
#include <string_view>

#include "formats/result.h"
#include "formats/session_summary.h"

namespace profd {

struct StatusInfo {
  struct Ledger {
    std::uint64_t taken = 0;
    std::uint64_t sent = 0;
    std::uint64_t idle = 0;
    std::uint64_t filtered = 0;
    CountsByReason lost;

    // taken - sent - idle - filtered - lost, of terms that are counted separately.
    [[nodiscard]] std::int64_t difference() const;
    friend bool operator==(const Ledger&, const Ledger&) = default;
  };

  std::string version;
  std::uint32_t pid = 0;
  double uptime_seconds = 0;
  double cpu_seconds = 0;
  std::uint64_t rss_bytes = 0;
  std::uint64_t sessions = 0;
  Ledger ledger;
  std::uint64_t outside_namespace = 0;
  std::uint64_t received = 0;
  std::uint64_t skipped_estimate = 0;
  std::uint64_t mapping_records = 0;
  std::uint64_t results_bytes = 0;

  friend bool operator==(const StatusInfo&, const StatusInfo&) = default;
};

[[nodiscard]] std::string to_json(const StatusInfo& status);
// Unknown members are skipped, so that an older profctl can ask a newer daemon.
[[nodiscard]] Result<StatusInfo> parse_status_info(std::string_view json);

}  // namespace profd
