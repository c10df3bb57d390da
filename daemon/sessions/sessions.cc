#include "daemon/sessions/sessions.h"

#include <algorithm>
#include <exception>
#include <optional>
#include <utility>

#include <boost/asio/as_tuple.hpp>
#include <boost/asio/co_spawn.hpp>
#include <boost/asio/detached.hpp>
#include <boost/asio/use_awaitable.hpp>
#include <spdlog/spdlog.h>

#include "collectors/host/cgroup_mount.h"
#include "daemon/profiles/session_writer.h"
#include "daemon/sessions/authorization.h"
#include "formats/base/log_text.h"

namespace profd {
namespace {

using std::chrono_literals::operator""ms;
using std::chrono_literals::operator""s;

constexpr auto kTuple = boost::asio::as_tuple(boost::asio::use_awaitable);

// A copy of a running session fits its ledger when no tick came between; at 99 Hz the second try
// does.
constexpr int kCopyTries = 20;

// Between two drains. Windows alone are in no hurry, and a busy CPU gives 20 KB a second to a ring
// of 1 MiB; who stops a session waits for its last samples.
constexpr auto kDrainForSessions = 100ms;
constexpr auto kDrainForWindows = 1000ms;

}  // namespace

Sessions::Sessions(boost::asio::io_context& io, SampleSource& source, Aggregator& aggregator,
                   ResultStore store, std::unique_ptr<Parser> parser, const SessionLimits& limits)
    : io_(io),
      source_(source),
      aggregator_(aggregator),
      store_(std::move(store)),
      limits_(limits),
      cgroups_(find_cgroup_mount()),
      drain_loop_(io, source),
      worker_(std::move(parser)),
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
  if (!caller.privileged) {
    if (Result<void> fits = check_start(limits_, held_by(caller.uid)); !fits) return fits.error();
  }
  if (request.event == kXrayEvent) return start_xray(caller, request);
  const Result<EventSpec> event =
      make_event_spec(request.event, request.frequency_hz, request.period);
  if (!event) return event.error();
  if (!caller.privileged) {
    if (Result<void> fits = check_rate(limits_, *event); !fits) return fits.error();
  }
  const Result<TargetRequest> target = cgroups_.resolve(request.target);
  if (!target) return target.error();
  const Result<SessionSlot> slot = start_sampling(*event, target_of(request, *target, caller));
  if (!slot) return slot.error();
  const SessionPtr session = add_session(caller, request, *event, *slot);
  spdlog::info("session {} started by uid {}: {}, {}", session->id, caller.uid,
               log_text(profd::describe(request.target)), log_text(event->name));
  return session->id;
}

Result<std::string> Sessions::start_xray(const Caller& caller, const StartRequest& request) {
  if (!xray_) return fail(ErrorCode::kUnavailable, "profd listens to no instrumented apps");
  const std::string id = unused_id();
  if (Result<void> started = xray_->start(caller, request, id); !started) return started.error();
  return id;
}

boost::asio::awaitable<Result<void>> Sessions::under_way(std::string id) {
  if (!xray_) co_return Result<void>();
  co_return co_await xray_->under_way(std::move(id));
}

boost::asio::awaitable<Result<ResultInfo>> Sessions::stop(Caller caller, std::string id) {
  const Result<bool> xray = is_xray(caller, id);
  if (!xray) co_return xray.error();
  if (*xray) {
    co_return co_await xray_->stop(id);
  }
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
  const Result<bool> xray = is_xray(caller, id);
  if (!xray) co_return xray.error();
  if (*xray) {
    co_return co_await xray_->dump(id);
  }
  const Result<SessionPtr> session = find(caller, id);
  if (!session || !(*session)->running) {
    const Result<const StoredResult*> stored = find_stored(caller, id);
    if (!session && !stored) co_return stored.error();
    co_return fail(ErrorCode::kInvalidArgument, "session " + id + " has ended",
                   "profctl stop " + id + " fetches it");
  }
  if (!caller.privileged) {
    const std::uint64_t bytes = aggregator_.samples((*session)->slot).bytes;
    Result<void> fits = check_dump(limits_, held_by(caller.uid), bytes);
    if (!fits) co_return fits.error();
  }
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
  if (naming_ != nullptr) naming_->hold(*snapshot);
  co_await resolve_jit_code(*snapshot);
  std::optional<SessionSnapshot> copy = std::move(*snapshot);
  auto operation = write(copy, std::move(result));
  Result<StoredResult> written = co_await std::move(operation);
  (*session)->bytes_with_worker -= bytes;
  --(*session)->dumps_with_worker;
  if (!written) co_return written.error();
  ResultInfo info = written->info;
  store_.adopt(std::move(*written));
  co_return info;
}

void Sessions::configure(const ConfigInForce& config) {
  config_ = &config;
  limits_.session_max_bytes = config.config().session_max_bytes;
  if (continuous_) continuous_->configure(config.config().continuous);
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
  if (traces_) traces_->stop();
  if (xray_ && !co_await xray_->shut_down()) all_stored = false;
  for (const auto& [id, session] : all) {
    const Result<ResultInfo> stored = co_await store(session);
    if (stored) continue;
    spdlog::error("session {} is lost: {}", id, stored.error().message);
    all_stored = false;
  }
  if (continuous_) {
    co_await continuous_->shut_down();
  }
  co_return all_stored;
}

std::string Sessions::unused_id() const {
  for (;;) {
    std::string id = random_id();
    const bool is_xray = xray_ && xray_->find(id) != nullptr;
    if (!is_xray && !sessions_.contains(id) && store_.find(id) == nullptr) return id;
  }
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
  session->renew_lease();
  session->slot = slot;
  aggregator_.open(slot, caller.privileged
                             ? limits_.session_max_bytes
                             : limits_.unprivileged_max_bytes / limits_.unprivileged_max_sessions);
  sessions_.emplace(session->id, session);
  set_pace();
  if (request.duration_ms != 0) {
    session->duration.expires_after(std::chrono::milliseconds(request.duration_ms));
    session->duration.async_wait([this, session](const boost::system::error_code& error) {
      if (!error) end_and_store(session);
    });
  }
  return session;
}

// Windows leave their place to a user's session.
Result<SessionSlot> Sessions::start_sampling(const EventSpec& event, const Target& target) {
  Result<SessionSlot> slot = source_.start(event, target);
  const bool is_full = !slot && slot.error().code == ErrorCode::kBusy;
  if (is_full && continuous_ && continuous_->yield_slot()) slot = source_.start(event, target);
  return slot;
}

void Sessions::set_pace() {
  if (running() != 0) {
    drain_loop_.resume(kDrainForSessions);
  } else if (continuous_ && continuous_->is_sampling()) {
    drain_loop_.resume(kDrainForWindows);
  } else {
    drain_loop_.pause();
  }
}

void Sessions::keep_windows(WindowStore store, Continuous::StartParser start_parser) {
  continuous_.emplace(Continuous::Parts{.io = io_,
                                        .source = source_,
                                        .aggregator = aggregator_,
                                        .sampling_changed = [this] { set_pace(); },
                                        .naming = naming_,
                                        .start_parser = std::move(start_parser)},
                      std::move(store));
  show_history(continuous_->windows(), [this] { return continuous_->status(); });
}

void Sessions::name_jit_code_by(JitNaming& naming) {
  naming_ = &naming;
  aggregator_.look_up_code_in(&naming);
}

// What hold() was called for.
boost::asio::awaitable<void> Sessions::resolve_jit_code(SessionSnapshot& snapshot) {
  if (naming_ != nullptr) {
    co_await naming_->resolve(snapshot);
  }
}

void Sessions::record_calls_of(std::unique_ptr<XrayApps> apps) {
  xray_ = std::make_unique<XraySessions>(
      XraySessions::Parts{.io = io_, .store = store_, .worker = worker_}, std::move(apps));
}

Result<void> Sessions::take_traces_from(const std::string& directory) {
  auto traces = XrayDirectory::open(
      {.io = io_, .store = store_, .unused_id = [this] { return unused_id(); }}, directory);
  if (!traces) return traces.error();
  traces_ = std::move(*traces);
  return {};
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
  if (naming_ != nullptr) naming_->hold(snapshot);
  session.held = std::move(snapshot);
  log_unkept_mappings(session);
  set_pace();
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

// The worker releases samples that are on the disk; others stay in `snapshot`.
boost::asio::awaitable<Result<StoredResult>> Sessions::write(
    std::optional<SessionSnapshot>& snapshot, StoredResult result) {
  auto job = [&directory = store_.directory(), &snapshot,
              result = std::move(result)](Parser& parser) {
    Result<StoredResult> stored = write_result(directory, result, [&](ResultWriter& writer) {
      return write_session(*snapshot, parser, writer);
    });
    if (stored) snapshot.reset();
    return stored;
  };
  co_return co_await worker_.run(std::move(job));
}

// Several may wait for the same session; the first one sends it to the worker.
boost::asio::awaitable<Result<ResultInfo>> Sessions::store(SessionPtr session) {
  while (session->with_worker) {
    co_await session->stored.async_wait(kTuple);
  }
  if (const StoredResult* stored = store_.find(session->id)) co_return stored->info;
  if (!session->held) co_return fail(ErrorCode::kNotFound, "no session " + session->id);
  StoredResult result;
  result.session = describe(*session);
  result.keep = session->owner.privileged ? 0s : limits_.unprivileged_keep;
  result.info.result = session->id;
  std::optional<SessionSnapshot> snapshot = std::exchange(session->held, std::nullopt);
  const std::uint64_t bytes = snapshot->bytes;
  session->with_worker = true;
  session->bytes_with_worker += bytes;
  co_await resolve_jit_code(*snapshot);
  auto operation = write(snapshot, std::move(result));
  Result<StoredResult> written = co_await std::move(operation);
  session->bytes_with_worker -= bytes;
  session->with_worker = false;
  session->held = std::move(snapshot);
  session->stored.cancel();
  if (!written) co_return written.error();
  ResultInfo info = written->info;
  store_.adopt(std::move(*written));
  let_go_of(*session);
  co_return info;
}

boost::asio::awaitable<void> Sessions::look_after() {
  while (!shutting_down_) {
    second_.expires_after(1s);
    co_await second_.async_wait(kTuple);
    if (shutting_down_) co_return;
    end_those_without_targets();
    end_those_without_client();
    if (xray_) xray_->look_after();
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

void Sessions::end_those_without_client() {
  const auto now = std::chrono::steady_clock::now();
  std::vector<SessionPtr> over;
  for (const auto& [id, session] : sessions_) {
    if (session->running && session->lease_end < now) over.push_back(session);
  }
  for (const SessionPtr& session : over) {
    spdlog::info("session {} ends: its client is gone", session->id);
    end_and_store(session);
  }
}

// Of callers without rights, what could not be stored goes as well.
void Sessions::expire() {
  store_.expire();
  const auto oldest = std::chrono::steady_clock::now() - limits_.unprivileged_keep;
  std::erase_if(sessions_, [oldest](const auto& entry) {
    const Session& session = *entry.second;
    return session.held && !session.owner.privileged && session.ended_steady < oldest;
  });
}

}  // namespace profd
