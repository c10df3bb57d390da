// Continuous mode: an endless session over all processes, which is split into windows that are
// written to the disk one by one. Of the CPU time, or, in a second instance with a store of its
// own, of the time that threads are off their CPU.
//
// Windows follow the wall clock: one of 60 s begins at :00. At its end another slot continues
// between two ticks, so that each window has its own exact ledger. The old slot then waits for its
// last samples while the new one is sampled. The length of a window is measured by the steady
// clock, so a step of the wall clock only changes the times in the window's record. For an hour
// after a step, no file is removed because of its age.
//
// No session can end a window: continuous mode has slots and an event set of its own. It writes its
// windows on a thread of its own with a low priority. When too many windows wait, the newest is
// lost and counted by reason. When no window waits, the same thread makes hour files out of the
// windows of hours that are over. On the io thread, except for the writer.

#pragma once

#include <chrono>
#include <cstdint>
#include <deque>
#include <functional>
#include <memory>
#include <optional>
#include <set>
#include <string>

#include <boost/asio/awaitable.hpp>
#include <boost/asio/io_context.hpp>
#include <boost/asio/steady_timer.hpp>

#include "collectors/host/user_refusals.h"
#include "collectors/parser/parser.h"
#include "collectors/sampling/event_spec.h"
#include "collectors/sampling/sampler.h"
#include "daemon/base/coroutines.h"
#include "daemon/history/failure.h"
#include "daemon/history/hour_file.h"
#include "daemon/history/store.h"
#include "daemon/history/writer.h"
#include "daemon/names/kernel_names.h"
#include "daemon/samples/aggregator.h"
#include "daemon/samples/jit_naming.h"
#include "daemon/service/config.h"
#include "daemon/storage/worker.h"
#include "formats/api/status_info.h"

namespace profd {

class Continuous {
 public:
  using StartParser = std::function<Result<std::unique_ptr<Parser>>()>;

  // All of these must outlive *this.
  struct Parts {
    boost::asio::io_context& io;
    Sampler& source;
    Aggregator& aggregator;
    std::function<void()> sampling_changed;  // called when is_sampling() has changed
    JitNaming* naming = nullptr;             // null: JIT code gets no names
    StartParser start_parser;                // called until it succeeds once, if enabled
    UserRefusals* refusals = nullptr;        // null: samples over a share are not counted by user
    std::shared_ptr<SharedKernelSymbols> kernel_symbols = std::make_shared<SharedKernelSymbols>();
    std::function<std::chrono::system_clock::time_point()> wall_clock =
        &std::chrono::system_clock::now;
    std::chrono::steady_clock::duration cleaning_interval = std::chrono::minutes(10);
    // Windows of blocks, while off_cpu of the configuration is true. They have a quarter of its
    // max_bytes.
    bool of_blocks = false;
    // What the files of the other instance take on the disk; null: there is none.
    std::function<std::uint64_t()> other_bytes{};
  };

  Continuous(Parts parts, WindowStore store);
  Continuous(const Continuous&) = delete;
  Continuous& operator=(const Continuous&) = delete;

  // A changed configuration ends the window; the next one begins at once and uses it. Tries again
  // if continuous mode could not start. From the first call on, files over the limits are removed
  // from time to time, also while continuous mode is off.
  void configure(const ContinuousConfig& config);

  [[nodiscard]] bool is_sampling() const { return open_.has_value(); }

  [[nodiscard]] const WindowStore& windows() const { return store_; }
  [[nodiscard]] StatusInfo::Continuous status() const;
  [[nodiscard]] NamingStats naming_stats() const {
    return writer_ ? writer_->naming_stats() : NamingStats();
  }

  // Ends the window, and returns when all waiting windows are written or lost.
  boost::asio::awaitable<void> shut_down();

 private:
  using Steady = std::chrono::steady_clock;
  using Wall = std::chrono::system_clock;

  struct OpenWindow {
    SessionSlot slot = 0;
    EventSpec event;
    Wall::time_point start;
    Steady::time_point start_steady;
    bool has_begun = true;  // false: no block counts yet
  };

  // What the worker gets: to be written, and to be destroyed.
  struct EndedWindow {
    SessionSnapshot snapshot;
    ForgottenImages forgotten;
  };

  boost::asio::awaitable<void> run();
  boost::asio::awaitable<void> sleep(Steady::duration time);
  boost::asio::awaitable<void> finish_begin();
  boost::asio::awaitable<void> end_window();
  boost::asio::awaitable<void> settle(SessionSlot slot);
  boost::asio::awaitable<void> close(const OpenWindow& window, Steady::time_point end);
  boost::asio::awaitable<void> close_last();
  boost::asio::awaitable<void> read_jit_sources(SessionSlot slot);
  boost::asio::awaitable<void> write_waiting();
  boost::asio::awaitable<void> remove_old();
  boost::asio::awaitable<void> keep_clean();
  boost::asio::awaitable<void> make_hours();
  boost::asio::awaitable<Result<HourInfo>> make(HourPlan plan);

  bool ready_to_write();
  Worker& worker();
  void begin();
  void fail_to_begin(const Error& why);
  void drop_unbegun();
  void start_hours();
  void open(SessionSlot slot, const EventSpec& event);
  [[nodiscard]] bool has_room_for(const EndedWindow& window) const;
  void enqueue(EndedWindow window);
  void adopt(WindowInfo written);
  void adopt(Result<HourInfo> made, Wall::time_point hour);
  [[nodiscard]] std::optional<HourPlan> next_hour();
  void count_failure(WindowFailure failure, std::uint64_t windows = 1);
  void count_over_share(std::uint64_t samples, const SamplesByUser& by_uid);
  void lose(WindowFailure failure, std::uint64_t samples, const std::string& why);
  [[nodiscard]] Steady::duration until_next_boundary() const;
  [[nodiscard]] Wall::time_point read_clock();
  [[nodiscard]] WindowLimits limits() const;
  [[nodiscard]] std::uint64_t max_bytes() const;

  Parts parts_;
  WindowStore store_;
  ContinuousConfig config_;
  std::optional<OpenWindow> open_;
  std::deque<EndedWindow> waiting_;
  boost::asio::steady_timer timer_;  // for the end of a window and its last samples
  AsyncCondition written_;           // all waiting windows are written
  AsyncCondition hours_made_;        // make_hours() has ended
  AsyncCondition ended_;             // run() has ended
  boost::asio::steady_timer cleaning_timer_;
  AsyncCondition cleaned_;  // keep_clean() has ended
  bool stopping_ = false;
  bool running_ = false;       // run() is active
  bool reconfigured_ = false;  // config_ has changed, and run() has not handled it yet
  bool writing_ = false;
  bool making_hours_ = false;  // make_hours() is active
  bool cleaning_ = false;      // keep_clean() is active
  bool failing_ = false;       // the last window was lost
  bool failing_to_begin_ = false;
  Wall::time_point wall_read_;  // by the last read_clock()
  Steady::time_point steady_read_;
  std::optional<Steady::time_point> clock_stepped_at_;
  std::set<Wall::time_point> failed_hours_;  // are tried again in the next hour
  Wall::time_point failed_in_;               // the hour in which these failed
  std::string last_written_;
  CountsByReason failed_;
  std::uint64_t lost_samples_ = 0;
  std::uint64_t over_share_samples_ = 0;
  std::unique_ptr<WindowWriter> writer_;  // used on worker_
  std::optional<Worker> worker_;          // last, so that it ends before the other members
};

}  // namespace profd
