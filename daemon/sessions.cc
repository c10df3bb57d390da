#include "daemon/sessions.h"

#include <unistd.h>

#include <algorithm>
#include <exception>
#include <numeric>
#include <optional>
#include <utility>

#include <boost/asio/as_tuple.hpp>
#include <boost/asio/co_spawn.hpp>
#include <boost/asio/detached.hpp>
#include <boost/asio/use_awaitable.hpp>
#include <spdlog/spdlog.h>

#include "collectors/sampling/loss.h"
#include "daemon/authorization.h"
#include "daemon/log_text.h"
#include "daemon/process_usage.h"

namespace profd {
namespace {

using std::chrono_literals::operator""s;

constexpr auto kTuple = boost::asio::as_tuple(boost::asio::use_awaitable);

// A copy of a running session fits its ledger when no tick came between; at 99 Hz the second try
// does.
constexpr int kCopyTries = 20;

bool may_see(const Caller& caller, uid_t owner) { return caller.trusted || caller.uid == owner; }

Error not_found(const std::string& id) {
  return fail(ErrorCode::kNotFound, "no session " + id, "see profctl list");
}

Error not_yours(const std::string& id) {
  return fail(ErrorCode::kPermissionDenied, "session " + id + " is another user's");
}

Error holds_too_much() {
  return fail(ErrorCode::kTooLarge, "your sessions and results hold too much",
              "fetch them with profctl stop");
}

// Nothing may be thrown on the worker's thread. What can be is a lack of memory.
Result<StoredResult> write_without_throwing(const std::string& directory,
                                            const SessionSnapshot& snapshot, StoredResult result) {
  try {
    return write_result(directory, snapshot, std::move(result));
  } catch (const std::exception& problem) {
    return fail(ErrorCode::kInternal,
                std::string("could not encode the samples: ") + problem.what());
  }
}

}  // namespace

Sessions::Sessions(boost::asio::io_context& io, SampleSource& source, Aggregator& aggregator,
                   ResultStore store, const SessionLimits& limits)
    : io_(io),
      source_(source),
      aggregator_(aggregator),
      store_(std::move(store)),
      limits_(limits),
      drain_loop_(io, source),
      second_(io) {
  boost::asio::co_spawn(io_, look_after(), boost::asio::detached);
}

Result<std::string> Sessions::start(const Caller& caller, const StartRequest& request) {
  if (shutting_down_) return fail(ErrorCode::kUnavailable, "profd is about to end");
  if (request.target.empty()) {
    return fail(ErrorCode::kInvalidArgument, "no target is given",
                "name a process, a command, a user, a cgroup, or all");
  }
  if (Result<void> allowed = authorize_target(caller, request.target); !allowed) {
    return allowed.error();
  }
  if (Result<void> fits = check_quota(caller); !fits) return fits.error();
  const Result<EventSpec> event =
      make_event_spec(request.event, request.frequency_hz, request.period);
  if (!event) return event.error();
  if (Result<void> fits = check_rate(caller, *event); !fits) return fits.error();
  const Result<SessionSlot> slot = source_.start(*event, target_of(request, caller));
  if (!slot) return slot.error();
  const SessionPtr session = add_session(caller, request, *event, *slot);
  spdlog::info("session {} started by uid {}: {}, {}", session->id, caller.uid,
               log_text(profd::describe(request.target)), log_text(event->name));
  return session->id;
}

Result<SessionInfo> Sessions::session(const Caller& caller, const std::string& id) {
  if (const Result<SessionPtr> session = find(caller, id)) return describe(**session);
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
  for (const StoredResult* stored : store_.all()) {
    if (!stored->is_dump && may_see(caller, stored->session.uid)) infos.push_back(stored->session);
  }
  return infos;
}

boost::asio::awaitable<Result<ResultInfo>> Sessions::stop(Caller caller, std::string id) {
  const Result<SessionPtr> session = find(caller, id);
  if (!session) {
    const Result<const StoredResult*> stored = find_stored(caller, id);
    if (!stored) co_return stored.error();
    if (Result<void> there = store_.check(**stored); !there) co_return there.error();
    co_return (*stored)->info;
  }
  if ((*session)->running) end(**session);
  co_return co_await store(*session);
}

boost::asio::awaitable<Result<ResultInfo>> Sessions::dump(Caller caller, std::string id) {
  const Result<SessionPtr> session = find(caller, id);
  if (!session || !(*session)->running) {
    const Result<const StoredResult*> stored = find_stored(caller, id);
    if (!session && !stored) co_return stored.error();
    co_return fail(ErrorCode::kInvalidArgument, "session " + id + " has ended",
                   "profctl stop " + id + " fetches it");
  }
  if (Result<void> fits = check_dump_quota(caller, **session); !fits) co_return fits.error();
  Result<SessionSnapshot> snapshot = copy_samples(**session);
  if (!snapshot) co_return snapshot.error();
  StoredResult result;
  result.session = describe(**session);
  result.is_dump = true;
  result.keep = kShortKeeping;
  result.info.result = id + "-dump-" + std::to_string(++(*session)->dumps);
  const std::uint64_t bytes = snapshot->bytes;
  ++(*session)->dumps_with_worker;
  (*session)->bytes_with_worker += bytes;
  Written written = co_await write(std::move(*snapshot), std::move(result));
  (*session)->bytes_with_worker -= bytes;
  --(*session)->dumps_with_worker;
  if (!written.result) co_return written.result.error();
  ResultInfo info = written.result->info;
  store_.adopt(std::move(*written.result));
  co_return info;
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

StatusInfo Sessions::status(const Caller& /*caller*/) {
  const ProcessUsage usage = own_usage();
  const SamplerLedger ledger = source_.ledger();
  const auto uptime = std::chrono::steady_clock::now() - started_;
  StatusInfo status{.version = PROFD_VERSION,
                    .pid = static_cast<std::uint32_t>(::getpid()),
                    .uptime_seconds = std::chrono::duration<double>(uptime).count(),
                    .cpu_seconds = usage.cpu_seconds,
                    .rss_bytes = usage.rss_bytes,
                    .sessions = running(),
                    .ledger = {.taken = ledger.taken,
                               .sent = ledger.sent,
                               .idle = ledger.idle,
                               .filtered = ledger.filtered,
                               .lost = {}},
                    .outside_namespace = ledger.outside_namespace,
                    .received = ledger.received,
                    .skipped_estimate = ledger.skipped_estimate,
                    .mapping_records = ledger.mapping_records,
                    .results_bytes = store_.bytes()};
  for (std::size_t reason = 0; reason < kLossCount; ++reason) {
    if (ledger.lost[reason] == 0) continue;
    status.ledger.lost.emplace(loss_name(static_cast<Loss>(reason)), ledger.lost[reason]);
  }
  return status;
}

boost::asio::awaitable<bool> Sessions::shut_down() {
  shutting_down_ = true;
  bool all_stored = true;
  second_.cancel();
  const std::map<std::string, SessionPtr> all = sessions_;
  for (const auto& [id, session] : all) {
    if (session->running) end(*session);
  }
  drain_loop_.stop();
  for (const auto& [id, session] : all) {
    const Result<ResultInfo> stored = co_await store(session);
    if (stored) continue;
    spdlog::error("session {} is lost: {}", id, stored.error().message);
    all_stored = false;
  }
  co_return all_stored;
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

Result<void> Sessions::check_quota(const Caller& caller) const {
  if (caller.trusted) return {};
  const std::size_t count = visible_to(caller).size();  // all of them its own
  if (count >= limits_.untrusted_max_sessions) {
    return fail(ErrorCode::kTooLarge,
                "you have " + std::to_string(count) + " sessions already, which is the limit",
                "fetch one with profctl stop");
  }
  if (bytes_held_by(caller.uid) > limits_.untrusted_max_bytes) {
    return holds_too_much();
  }
  return {};
}

Result<void> Sessions::check_rate(const Caller& caller, const EventSpec& event) const {
  if (caller.trusted) return {};
  constexpr std::uint64_t kMinPeriodNs = 1'000'000;
  const std::string limit = std::to_string(limits_.untrusted_max_hz) + " Hz";
  const std::string hint = "give a frequency of at most " + limit;
  if (event.frequency_hz > limits_.untrusted_max_hz) {
    return fail(ErrorCode::kInvalidArgument,
                std::to_string(event.frequency_hz) + " Hz is over your limit of " + limit, hint);
  }
  if (event.period == 0) return {};
  if (!event.is_time) {
    return fail(ErrorCode::kPermissionDenied,
                "only root and the group profd may give a period of " + event.name, hint);
  }
  if (event.period >= kMinPeriodNs) return {};
  return fail(ErrorCode::kInvalidArgument,
              "a period of " + std::to_string(event.period) + " ns is under your limit of 1 ms",
              "give one of at least 1000000 (ns)");
}

Result<void> Sessions::check_dump_quota(const Caller& caller, const Session& session) const {
  if (caller.trusted) return {};
  std::size_t count = store_.dumps_of(caller.uid);
  for (const auto& [id, other] : sessions_) {
    if (other->owner.uid == caller.uid) count += other->dumps_with_worker;
  }
  if (count >= limits_.untrusted_max_dumps) {
    return fail(ErrorCode::kTooLarge,
                "you have " + std::to_string(count) + " dumps already, which is the limit",
                "fetch one and remove it, or wait: each goes after 15 minutes");
  }
  const std::uint64_t copy = aggregator_.samples(session.slot).bytes;
  if (bytes_held_by(caller.uid) + copy > limits_.untrusted_max_bytes) return holds_too_much();
  return {};
}

std::uint64_t Sessions::bytes_held_by(uid_t uid) const {
  std::uint64_t sum = store_.bytes_of(uid);
  for (const auto& [id, session] : sessions_) {
    if (session->owner.uid != uid) continue;
    if (session->running) sum += aggregator_.samples(session->slot).bytes;
    if (session->held) sum += session->held->bytes;
    sum += session->bytes_with_worker;
  }
  return sum;
}

std::string Sessions::unused_id() const {
  for (;;) {
    std::string id = random_session_id();
    if (!sessions_.contains(id) && store_.find(id) == nullptr) return id;
  }
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

Sessions::SessionPtr Sessions::add_session(const Caller& caller, const StartRequest& request,
                                           const EventSpec& event, SessionSlot slot) {
  auto session = std::make_shared<Session>(io_);
  session->id = unused_id();
  session->owner = caller;
  session->request = request;
  session->event = event;
  session->started = std::chrono::system_clock::now();
  session->started_steady = std::chrono::steady_clock::now();
  session->slot = slot;
  aggregator_.open(slot, caller.trusted
                             ? limits_.session_max_bytes
                             : limits_.untrusted_max_bytes / limits_.untrusted_max_sessions);
  sessions_.emplace(session->id, session);
  drain_loop_.resume();
  if (request.duration_ms != 0) {
    session->duration.expires_after(std::chrono::milliseconds(request.duration_ms));
    session->duration.async_wait([this, session](const boost::system::error_code& error) {
      if (!error) end_and_store(session);
    });
  }
  return session;
}

void Sessions::end(Session& session) {
  session.duration.cancel();
  const bool targets_alive = source_.has_targets(session.slot);
  const SlotLedger ledger = source_.stop(session.slot);
  session.running = false;
  session.ended_steady = std::chrono::steady_clock::now();
  SessionSnapshot snapshot = snapshot_of(session);
  snapshot.ledger = ledger;
  add_samples(snapshot, aggregator_.close(session.slot), aggregator_.processes());
  session.final_counts = {.samples = snapshot.samples,
                          .lost = lost_of(ledger, snapshot.refused),
                          .targets_alive = targets_alive};
  session.held = std::move(snapshot);
  log_unkept_mappings(session);
  if (running() == 0) drain_loop_.pause();
}

void Sessions::end_and_store(const SessionPtr& session) {
  if (!session->running) return;
  end(*session);
  boost::asio::co_spawn(
      io_, store(session), [session](const std::exception_ptr&, const Result<ResultInfo>& stored) {
        if (!stored)
          spdlog::warn("session {} stays in memory: {}", session->id, stored.error().message);
      });
}

Result<SessionSnapshot> Sessions::copy_samples(const Session& session) {
  SessionSnapshot snapshot = snapshot_of(session);
  for (int tries = 0; tries < kCopyTries; ++tries) {
    snapshot.ledger = source_.slot_ledger(session.slot);
    source_.drain();
    const SessionSamples& samples = aggregator_.samples(session.slot);
    const std::uint64_t accounted = samples.samples + lost_of(snapshot.ledger, samples.refused);
    if (accounted == snapshot.ledger.taken) break;
  }
  try {
    SessionSamples copy = aggregator_.samples(session.slot);
    add_samples(snapshot, std::move(copy), aggregator_.processes());
  } catch (const std::bad_alloc&) {
    return fail(ErrorCode::kTooLarge, "no memory for a copy of the samples of " + session.id);
  }
  return snapshot;
}

void Sessions::log_unkept_mappings(const Session& session) {
  if (const std::uint64_t unkept = aggregator_.take_unkept_mappings(); unkept != 0) {
    spdlog::warn("session {}: {} mappings were over a limit; frames in them have no names",
                 session.id, unkept);
  }
}

void Sessions::let_go_of(const Session& session) {
  sessions_.erase(session.id);
  aggregator_.forget_processes();
  source_.release_files();
}

// Several may wait for the same session; the first one sends it to the worker.
boost::asio::awaitable<Result<ResultInfo>> Sessions::store(SessionPtr session) {
  while (session->with_worker) {
    co_await session->stored.async_wait(kTuple);
  }
  if (const StoredResult* stored = store_.find(session->id)) co_return stored->info;
  if (!session->held) co_return not_found(session->id);
  StoredResult result;
  result.session = describe(*session);
  result.keep = session->owner.trusted ? 0s : limits_.untrusted_keep;
  result.info.result = session->id;
  SessionSnapshot snapshot = std::move(*session->held);
  session->held.reset();
  const std::uint64_t bytes = snapshot.bytes;
  session->with_worker = true;
  session->bytes_with_worker += bytes;
  Written written = co_await write(std::move(snapshot), std::move(result));
  session->bytes_with_worker -= bytes;
  session->with_worker = false;
  session->held = std::move(written.unwritten);
  session->stored.cancel();
  if (!written.result) co_return written.result.error();
  ResultInfo info = written.result->info;
  store_.adopt(std::move(*written.result));
  let_go_of(*session);
  co_return info;
}

boost::asio::awaitable<Sessions::Written> Sessions::write(SessionSnapshot snapshot,
                                                          StoredResult result) {
  result.created = std::chrono::system_clock::now();
  // Samples that are on the disk are let go on the worker, where that holds nobody up.
  auto work = [directory = store_.directory(), snapshot = std::move(snapshot),
               result = std::move(result)]() mutable {
    Written written{.result = write_without_throwing(directory, snapshot, std::move(result)),
                    .unwritten = std::nullopt};
    if (!written.result) written.unwritten = std::move(snapshot);
    return written;
  };
  co_return co_await worker_.run(std::move(work));
}

boost::asio::awaitable<void> Sessions::look_after() {
  while (!shutting_down_) {
    second_.expires_after(1s);
    co_await second_.async_wait(kTuple);
    if (shutting_down_) co_return;
    end_those_without_targets();
    expire();
  }
}

void Sessions::end_those_without_targets() {
  std::vector<SessionPtr> over;
  for (const auto& [id, session] : sessions_) {
    if (session->running && !source_.has_targets(session->slot)) over.push_back(session);
  }
  std::ranges::for_each(over, [this](const SessionPtr& session) { end_and_store(session); });
}

// Of callers without rights, what could not be stored goes as well.
void Sessions::expire() {
  store_.expire();
  const auto oldest = std::chrono::steady_clock::now() - limits_.untrusted_keep;
  std::erase_if(sessions_, [oldest](const auto& entry) {
    const Session& session = *entry.second;
    return session.held && !session.owner.trusted && session.ended_steady < oldest;
  });
}

}  // namespace profd
