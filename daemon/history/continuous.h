// Continuous mode: a session over all processes that never ends, cut into windows which go to the
// disk one by one.
//
// Windows follow the wall clock: one of 60 s begins at :00. At its end another slot takes over
// between two ticks, so that each window has its own exact ledger; the old slot then waits for its
// last samples without holding anybody up. How long a window was is measured by the steady clock,
// so a step of the wall clock shows in its times and nowhere else.
//
// Everything else goes before it. Its windows are written on a thread of their own, of a low
// priority; when too many wait, the newest is lost, by a counted reason. It gives up
// its slot where a user's session needs one. On the io thread, but for the writer's part.

#pragma once

#include <chrono>
#include <cstdint>
#include <deque>
#include <functional>
#include <memory>
#include <optional>
#include <string>

#include <boost/asio/awaitable.hpp>
#include <boost/asio/io_context.hpp>
#include <boost/asio/steady_timer.hpp>

#include "collectors/parser/parser.h"
#include "collectors/sampling/event_spec.h"
#include "collectors/sampling/sampler.h"
#include "daemon/history/failure.h"
#include "daemon/history/store.h"
#include "daemon/history/writer.h"
#include "daemon/samples/aggregator.h"
#include "daemon/samples/jit_naming.h"
#include "daemon/service/config.h"
#include "daemon/storage/worker.h"
#include "formats/api/status_info.h"

namespace profd {

class Continuous {
 public:
  using StartParser = std::function<Result<std::unique_ptr<Parser>>()>;

  // What it works with; all must outlive it.
  struct Parts {
    boost::asio::io_context& io;
    Sampler& source;
    Aggregator& aggregator;
    std::function<void()> sampling_changed;  // called when is_sampling() is another
    JitNaming* naming = nullptr;             // of code made at run time; null: it has no names
    StartParser start_parser;                // once, when it is first enabled
  };

  Continuous(Parts parts, WindowStore store);
  Continuous(const Continuous&) = delete;
  Continuous& operator=(const Continuous&) = delete;

  // What is new is in force from the next window on, which begins at once.
  void configure(const ContinuousConfig& config);

  [[nodiscard]] bool is_sampling() const { return open_.has_value(); }

  // Ends the window and leaves its slot to others until the next one is due. False when it has
  // none.
  bool yield_slot();

  [[nodiscard]] const WindowStore& windows() const { return store_; }
  [[nodiscard]] StatusInfo::Continuous status() const;

  // Ends the window at hand, and returns when all that wait are written or lost.
  boost::asio::awaitable<void> shut_down();

 private:
  using Steady = std::chrono::steady_clock;
  using Wall = std::chrono::system_clock;

  struct OpenWindow {
    SessionSlot slot = 0;
    EventSpec event;
    Wall::time_point start;
    Steady::time_point start_steady;
  };

  boost::asio::awaitable<void> run();
  boost::asio::awaitable<void> sleep(Steady::duration time);
  boost::asio::awaitable<void> end_window();
  boost::asio::awaitable<void> settle(SessionSlot slot);
  boost::asio::awaitable<void> read_on(SessionSlot slot);
  boost::asio::awaitable<void> write_waiting();

  bool ready_to_write();
  void begin();
  void open(SessionSlot slot, const EventSpec& event);
  void close(const OpenWindow& window, Steady::time_point end);
  void enqueue(WindowSamples samples);
  void adopt(WrittenWindow written, std::uint64_t samples);
  void count_failure(WindowFailure failure, std::uint64_t windows = 1);
  void lose(WindowFailure failure, std::uint64_t samples, const std::string& why);
  [[nodiscard]] Steady::duration until_next_boundary() const;
  [[nodiscard]] WindowLimits limits() const;
  void watch_clock(const OpenWindow& window, Steady::time_point end);

  Parts parts_;
  WindowStore store_;
  ContinuousConfig config_;
  std::optional<OpenWindow> open_;
  std::deque<WindowSamples> waiting_;
  boost::asio::steady_timer timer_;    // the end of the window, and while it settles
  boost::asio::steady_timer written_;  // cancelled when nothing waits any more
  boost::asio::steady_timer ended_;    // cancelled when run() is over
  bool stopping_ = false;
  bool running_ = false;       // run() is
  bool reconfigured_ = false;  // and has not seen it yet
  bool writing_ = false;
  bool failing_ = false;
  std::optional<Steady::time_point> clock_stepped_at_;
  std::string last_written_;
  CountsByReason failed_;
  std::uint64_t lost_samples_ = 0;
  std::unique_ptr<WindowWriter> writer_;  // the worker's
  std::optional<Worker> worker_;          // last: it ends its work before the rest goes
};

}  // namespace profd
