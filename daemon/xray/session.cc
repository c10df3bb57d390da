#include "daemon/xray/session.h"

#include <fcntl.h>

#include "formats/api/utc_time.h"

namespace profd {
namespace {

std::chrono::nanoseconds time_of(const XraySession& session) {
  const auto end = session.is_running() ? std::chrono::steady_clock::now() : session.ended_steady;
  return end - session.started_steady;
}

}  // namespace

void XraySession::renew_lease() {
  if (request.lease_ms == 0) return;
  lease_end = std::chrono::steady_clock::now() + std::chrono::milliseconds(request.lease_ms);
}

SessionInfo info_of(const XraySession& session) {
  return {.session = session.id,
          .state = session.is_running() ? "running" : "ended",
          .target = session.request.target,
          .event = session.request.event,
          .frequency_hz = 0,
          .period = 1,
          .started = utc_text(session.started),
          .seconds = std::chrono::duration<double>(time_of(session)).count(),
          .samples = session.records,
          .lost = session.dropped,
          .uid = session.owner.uid,
          .targets_alive = session.end == xray::DetachReason::kAsAsked && !session.error};
}

XrayMeasurement measurement_of(const XraySession& session, const UniqueFd& result) {
  return {.session = session.id,
          .started = session.started,
          .lasted = time_of(session),
          .target = session.target,
          .privileged = session.owner.privileged,
          .end = session.end,
          .result = UniqueFd(::fcntl(result.get(), F_DUPFD_CLOEXEC, 0))};
}

}  // namespace profd
