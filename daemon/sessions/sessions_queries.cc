// What Sessions, as the Service, answers without a change to any session: who may see what, and
// what each holds.

#include <algorithm>

#include "daemon/control/status.h"
#include "daemon/sessions/sessions.h"

namespace profd {
namespace {

bool may_see(const Caller& caller, uid_t owner) { return caller.privileged || caller.uid == owner; }

Error not_found(const std::string& id) {
  return fail(ErrorCode::kNotFound, "no session " + id, "see profctl list");
}

Error not_yours(const std::string& id) {
  return fail(ErrorCode::kPermissionDenied, "session " + id + " is another user's");
}

}  // namespace

Result<SessionInfo> Sessions::session(const Caller& caller, const std::string& id) {
  const Result<bool> xray = is_xray(caller, id);
  if (!xray) return xray.error();
  if (*xray) {
    xray_->renew_lease(id);
    return info_of(*xray_->find(id));
  }
  if (const Result<SessionPtr> session = find(caller, id)) {
    (*session)->renew_lease();
    return describe(**session);
  }
  const Result<const StoredResult*> stored = find_stored(caller, id);
  if (!stored) return stored.error();
  return (*stored)->session;
}

std::vector<SessionInfo> Sessions::sessions(const Caller& caller) { return visible_to(caller); }

std::vector<SessionInfo> Sessions::visible_to(const Caller& caller) const {
  std::vector<SessionInfo> infos;
  for (const auto& [id, session] : sessions_) {
    if (may_see(caller, session->owner.uid)) infos.push_back(describe(*session));
  }
  if (xray_) {
    for (const XraySession* session : xray_->all()) {
      if (may_see(caller, session->owner.uid)) infos.push_back(info_of(*session));
    }
  }
  for (const StoredResult* stored : store_.all()) {
    if (!stored->is_dump && may_see(caller, stored->session.uid)) infos.push_back(stored->session);
  }
  return infos;
}

Result<OpenedFile> Sessions::open_result_file(const Caller& caller, const std::string& result,
                                              const std::string& path) {
  const Result<const StoredResult*> stored = find_stored(caller, result);
  if (!stored) return stored.error();
  return store_.open_file(**stored, path);
}

Result<void> Sessions::remove_result(const Caller& caller, const std::string& result) {
  const Result<const StoredResult*> stored = find_stored(caller, result);
  if (!stored) return stored.error();
  return store_.remove(result);
}

Result<ConfigInfo> Sessions::configuration(const Caller& caller) {
  if (!caller.privileged) {
    return fail(ErrorCode::kPermissionDenied, "the configuration is for root and the group profd",
                "sudo profctl config");
  }
  if (config_ == nullptr) return fail(ErrorCode::kUnavailable, "there is no configuration yet");
  return config_->describe();
}

StatusInfo::Xray Sessions::describe_xray() const {
  StatusInfo::Xray xray;
  if (xray_) {
    xray.apps = xray_->apps().size();
    xray.apps_refused = xray_->apps().refused();
    xray.sessions = xray_->running();
    xray.failed = xray_->failed();
    xray.ended = xray_->ended();
  }
  if (traces_) {
    xray.traces = traces_->counts().logs;
    xray.traces_refused = traces_->counts().refused;
    xray.traces_missed = traces_->counts().missed;
  }
  return xray;
}

StatusInfo Sessions::status(const Caller& caller) {
  DaemonFacts facts;
  facts.uptime = std::chrono::steady_clock::now() - started_;
  facts.running_sessions = running();
  facts.results_bytes = store_.bytes();
  facts.worker_parser_restarts = worker_.parser_restarts();
  facts.ledger = source_.ledger();
  facts.unwinding = source_.unwind_stats();
  if (naming_ != nullptr) facts.jit = naming_->stats();
  facts.xray = describe_xray();
  if (continuous_) facts.continuous = continuous_->status();
  return describe_daemon(facts, aggregator_.unwind_tally(), caller.privileged);
}

Result<bool> Sessions::is_xray(const Caller& caller, const std::string& id) const {
  const XraySession* const session = xray_ ? xray_->find(id) : nullptr;
  if (session == nullptr) return false;
  if (!may_see(caller, session->owner.uid)) return not_yours(id);
  return true;
}

Result<Sessions::SessionPtr> Sessions::find(const Caller& caller, const std::string& id) const {
  const auto found = sessions_.find(id);
  if (found == sessions_.end()) return not_found(id);
  if (!may_see(caller, found->second->owner.uid)) return not_yours(id);
  return found->second;
}

Result<const StoredResult*> Sessions::find_stored(const Caller& caller,
                                                  const std::string& id) const {
  const auto unstored = sessions_.find(id);
  if (unstored != sessions_.end() && !may_see(caller, unstored->second->owner.uid)) {
    return not_yours(id);
  }
  const StoredResult* stored = store_.find(id);
  if (stored == nullptr) return not_found(id);
  if (!may_see(caller, stored->session.uid)) return not_yours(id);
  return stored;
}

Holdings Sessions::held_by(uid_t uid) const {
  Holdings held{.sessions = 0, .dumps = store_.dumps_of(uid), .bytes = store_.bytes_of(uid)};
  if (history_ && history_->is_busy_for(uid)) ++held.dumps;
  for (const StoredResult* stored : store_.all()) {
    if (!stored->is_dump && stored->session.uid == uid) ++held.sessions;
  }
  if (xray_) {
    for (const XraySession* session : xray_->all()) {
      if (session->owner.uid == uid) ++held.sessions;
    }
  }
  for (const auto& [id, session] : sessions_) {
    if (session->owner.uid != uid) continue;
    ++held.sessions;
    held.dumps += session->dumps_with_worker;
    held.bytes += session->bytes_with_worker;
    if (session->running) held.bytes += aggregator_.samples(session->slot).bytes;
    if (session->held) held.bytes += session->held->bytes;
  }
  return held;
}

std::size_t Sessions::running() const {
  return static_cast<std::size_t>(
      std::ranges::count_if(sessions_, [](const auto& entry) { return entry.second->running; }));
}

SessionInfo Sessions::describe(const Session& session) const {
  if (!session.running) return info_of(session, session.final_counts);
  const SessionSamples& samples = aggregator_.samples(session.slot);
  return info_of(session, {.samples = samples.samples,
                           .lost = lost_of(source_.slot_ledger(session.slot), samples.refused),
                           .targets_alive = source_.has_targets(session.slot)});
}

}  // namespace profd
