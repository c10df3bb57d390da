#include "daemon/sessions/session.h"

#include <numeric>

#include "formats/api/utc_time.h"

namespace profd {

void Session::renew_lease() {
  if (request.lease_ms == 0) return;
  lease_end = std::chrono::steady_clock::now() + std::chrono::milliseconds(request.lease_ms);
}

Target target_of(const StartRequest& request, const TargetRequest& processes, const Caller& owner) {
  Target target{.all = processes.all,
                .pids = processes.pids,
                .comms = processes.comms,
                .uids = processes.uids,
                .cgroups = processes.cgroups,
                .follow_children = request.children,
                .from_exec = request.from_exec,
                .restrict_to = std::nullopt};
  if (!owner.privileged) target.restrict_to = {.uid = owner.uid, .gid = owner.gid};
  return target;
}

std::chrono::nanoseconds time_of(const Session& session) {
  const auto end = session.running ? std::chrono::steady_clock::now() : session.ended_steady;
  return end - session.started_steady;
}

SessionSnapshot snapshot_of(const Session& session) {
  SessionSnapshot snapshot;
  snapshot.session = session.id;
  snapshot.started = session.started;
  snapshot.lasted = time_of(session);
  snapshot.event = session.event;
  snapshot.hide_kernel = !session.owner.privileged;
  return snapshot;
}

SessionInfo info_of(const Session& session, const SessionCounts& counts) {
  return {.session = session.id,
          .state = session.running ? "running" : "ended",
          .target = session.request.target,
          .event = session.event.name,
          .frequency_hz = session.event.frequency_hz,
          .period = session.event.period,
          .started = utc_text(session.started),
          .seconds = std::chrono::duration<double>(time_of(session)).count(),
          .samples = counts.samples,
          .lost = counts.lost,
          .uid = session.owner.uid,
          .targets_alive = counts.targets_alive};
}

std::uint64_t lost_of(const SlotLedger& ledger, std::uint64_t refused) {
  return std::accumulate(ledger.lost.begin(), ledger.lost.end(), refused);
}

}  // namespace profd
