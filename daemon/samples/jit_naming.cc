#include "daemon/samples/jit_naming.h"

#include <fcntl.h>

#include <algorithm>
#include <chrono>
#include <utility>

#include <boost/asio/this_coro.hpp>

#include "daemon/base/coroutines.h"

namespace profd {
namespace {

using std::chrono_literals::operator""ms;

// Between two checks whether the files are read to their ends, and how many there are: more than
// the collector's own time limit needs.
constexpr auto kReadPause = 10ms;
constexpr int kReadTries = 300;

// Of one turn. A frame needs up to 0.1 ms: where its search visits as many rows of hostile code as
// it may, in each layer of the process.
constexpr std::size_t kFramesAtATime = 1'000;
constexpr auto kMaxTurn = 5ms;

bool has_times(const ProcessSamples& samples) { return !samples.jit.empty(); }

using Clock = std::chrono::steady_clock;

// Finds nothing from the time `end` on, which changes, and sets `is_late` then.
JitLookup until(JitLookup code, const Clock::time_point& end, bool& is_late) {
  const auto at = [find = std::move(code.at), &end, &is_late](std::uint64_t address,
                                                              std::uint64_t time_ns) {
    is_late = is_late || Clock::now() >= end;
    return is_late ? std::optional<JitFunction>() : find(address, time_ns);
  };
  return {.at = at, .source_file_of = std::move(code.source_file_of)};
}

}  // namespace

// Asio closes its descriptor, so it gets one of its own.
JitNaming::JitNaming(boost::asio::io_context& io, std::unique_ptr<JitProcesses> processes)
    : processes_(std::move(processes)),
      events_(io, ::fcntl(processes_->wake_fd(), F_DUPFD_CLOEXEC, 0)),
      timer_(io) {
  spawn(io, poll_on_events());
  spawn(io, poll_by_time());
}

void JitNaming::stop() {
  stopped_ = true;
  events_.cancel();
  timer_.cancel();
}

JitLookup JitNaming::lookup(const ProcessKey& process) {
  return {
      .at = [this, process](std::uint64_t address, std::uint64_t time_ns)
          -> std::optional<JitFunction> { return processes_->at(process, address, time_ns); },
      .source_file_of = [this](const JitCode& code) { return processes_->source_file_of(code); }};
}

void JitNaming::forget_unless(const std::function<bool(const ProcessKey&)>& needed) {
  processes_->forget_unless(
      [&](const ProcessKey& key) { return held_.contains(key) || needed(key); });
}

void JitNaming::hold(const SessionSnapshot& snapshot) {
  for (const ProcessKey& key : timed_processes(snapshot)) held_.insert(key);
}

boost::asio::awaitable<void> JitNaming::resolve(SessionSnapshot& snapshot) {
  std::vector<ProcessKey> processes = timed_processes(snapshot);
  if (!processes.empty()) {
    co_await read_to_end(processes);
  }
  for (ProcessSnapshot& process : snapshot.processes) {
    if (has_times(process.samples)) {
      co_await resolve(process);
    }
  }
  release(processes);
}

void JitNaming::release(const std::vector<ProcessKey>& held) {
  for (const ProcessKey& key : held) {
    if (const auto found = held_.find(key); found != held_.end()) held_.erase(found);
  }
}

// The rings are drained between two turns, also where each process needs only one.
boost::asio::awaitable<void> JitNaming::resolve(ProcessSnapshot& process) {
  JitResolver resolver = resolver_of(process, lookup(process.key));
  for (bool has_more = true; has_more;) {
    has_more = resolver.advance(kFramesAtATime, Clock::now() + kMaxTurn);
    co_await yield();
  }
  finish(resolver, process);
}

boost::asio::awaitable<void> JitNaming::resolve_in_time(SessionSnapshot& snapshot) {
  const std::vector<ProcessKey> processes = timed_processes(snapshot);
  hold(snapshot);
  Clock::duration left = kMaxTime;
  std::size_t unresolved = processes.size();
  for (ProcessSnapshot& process : snapshot.processes) {
    if (!has_times(process.samples)) continue;
    bool is_late = false;
    Clock::time_point end;
    JitResolver resolver = resolver_of(process, until(lookup(process.key), end, is_late));
    // What one process does not need is for those after it.
    Clock::duration share = left / unresolved--;
    for (bool has_more = true; has_more;) {
      const Clock::time_point begin = Clock::now();
      end = begin + share;
      has_more = resolver.advance(kFramesAtATime, begin + kMaxTurn);
      const auto took = std::min<Clock::duration>(share, Clock::now() - begin);
      share -= took;
      left -= took;
      co_await yield();
    }
    finish(resolver, process);
    if (is_late) ++late_;
  }
  release(processes);
}

JitResolver JitNaming::resolver_of(ProcessSnapshot& process, JitLookup code) {
  return {process.samples.stacks, std::exchange(process.samples.jit, {}), *process.image,
          std::move(code)};
}

JitStats JitNaming::stats() const {
  JitStats stats = processes_->stats();
  stats.refused[static_cast<std::size_t>(JitRefusal::kLate)] += late_;
  return stats;
}

void JitNaming::finish(JitResolver& resolver, ProcessSnapshot& process) {
  process.jit = resolver.take();
  process.jit->info = processes_->info(process.key).value_or(JitProcessInfo());
}

boost::asio::awaitable<void> JitNaming::read_to_end(std::vector<ProcessKey> processes) {
  const std::uint64_t ticket = processes_->read_to_end(processes);
  boost::asio::steady_timer timer(co_await boost::asio::this_coro::executor);
  for (int tries = 0; tries < kReadTries; ++tries) {
    co_await poll();
    if (stopped_ || processes_->has_read_to_end(ticket)) co_return;
    timer.expires_after(kReadPause);
    co_await wait_for(timer);
  }
}

boost::asio::awaitable<void> JitNaming::poll_on_events() {
  while (!stopped_) {
    const bool readable = co_await wait_readable(events_);
    if (!readable) co_return;
    co_await poll();
    if (processes_->interval() < interval_) timer_.cancel();
  }
}

// Processes are scanned again now and then.
boost::asio::awaitable<void> JitNaming::poll_by_time() {
  while (!stopped_) {
    interval_ = processes_->interval();
    expire_with_others(timer_, interval_);
    co_await wait_for(timer_);
    co_await poll();
  }
}

// Others have their turns in between.
boost::asio::awaitable<void> JitNaming::poll() {
  while (!stopped_ && !processes_->poll()) {
    co_await yield();
  }
}

std::vector<ProcessKey> timed_processes(const SessionSamples& samples) {
  std::vector<ProcessKey> keys;
  for (const auto& [key, process] : samples.processes) {
    if (has_times(process)) keys.push_back(key);
  }
  return keys;
}

std::vector<ProcessKey> timed_processes(const SessionSnapshot& snapshot) {
  std::vector<ProcessKey> keys;
  for (const ProcessSnapshot& process : snapshot.processes) {
    if (has_times(process.samples)) keys.push_back(process.key);
  }
  return keys;
}

}  // namespace profd
