// Continuous mode with a fake sampler, a state directory of its own and a clock that can be ahead.

#pragma once

#include <atomic>
#include <chrono>
#include <cstddef>
#include <cstdint>
#include <exception>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include <boost/asio/co_spawn.hpp>
#include <boost/asio/io_context.hpp>
#include <gtest/gtest.h>

#include "daemon/history/continuous.h"
#include "tests/daemon/history/named_windows.h"
#include "tests/daemon/local_parser.h"
#include "tests/daemon/samples/fake_source.h"
#include "tests/formats/readers.h"

namespace profd::test {

class ContinuousTest : public testing::Test {
 protected:
  using Time = std::chrono::system_clock::time_point;
  static constexpr std::chrono::seconds kHang{30};
  static constexpr ProcessKey kProcess{.tgid = 7, .exec_id = 1, .start_ns = 100};

  void SetUp() override { open(); }
  void open() {
    continuous_ = std::make_unique<Continuous>(
        Continuous::Parts{.io = io_,
                          .source = source_,
                          .aggregator = aggregator_,
                          .sampling_changed = [this] { ++changes_; },
                          .start_parser = [this] { return start_parser(); },
                          .wall_clock = [this] { return Time::clock::now() + ahead_.load(); },
                          .cleaning_interval = cleaning_interval_,
                          .of_blocks = of_blocks_,
                          .other_bytes = {}},
        WindowStore::open(scratch_.path()).value());
  }
  void TearDown() override { shut_down(); }

  // With what is in the state directory now, as after a restart of the daemon.
  void reopen() {
    shut_down();
    open();
  }
  // Writes a window of a process with 3 samples. Returns the name.
  std::string write_window_at(Time start) const {
    return NamedWindow(start)
        .add({.stacks = {{{"hot"}, 3}}})
        .write(continuous_->windows().windows_dir());
  }
  void wait_for_hours(std::size_t count) {
    run_until([this, count] { return continuous_->windows().hours().size() >= count; });
  }
  [[nodiscard]] std::uint64_t samples_of_hour(std::size_t hour) const {
    const WindowStore& store = continuous_->windows();
    return WindowFile::open(store.hours_dir(), store.hours().at(hour).name)
        ->summary()
        .ledger.written;
  }

  Result<std::unique_ptr<Parser>> start_parser() {
    if (parser_error_) return *parser_error_;
    return std::unique_ptr<Parser>(std::make_unique<LocalParser>());
  }

  void run_until(const std::function<bool()>& over) {
    const auto limit = std::chrono::steady_clock::now() + kHang;
    io_.restart();
    while (!over() && std::chrono::steady_clock::now() < limit) {
      io_.run_one_for(std::chrono::milliseconds(100));
    }
    ASSERT_TRUE(over());
  }
  void wait_for_windows(std::size_t count) {
    run_until([this, count] { return windows().size() >= count; });
  }
  void shut_down() {
    bool over = false;
    boost::asio::co_spawn(io_, continuous_->shut_down(),
                          [&over](const std::exception_ptr&) { over = true; });
    run_until([&over] { return over; });
  }

  // In whichever slot samples now.
  void take(std::uint64_t count, std::optional<ProcessOwner> owner = std::nullopt) {
    for (std::uint64_t i = 0; i < count; ++i) {
      source_.take(SyntheticSample(kProcess).leaf(i + 1).owner(owner), newest_slot());
    }
  }
  SessionSlot newest_slot() const { return newest_; }

  const std::vector<WindowInfo>& windows() const { return continuous_->windows().windows(); }
  WindowFile file(std::size_t window) const {
    return WindowFile::open(continuous_->windows().windows_dir(), windows()[window].name).value();
  }
  SessionSummary summary(std::size_t window) const { return file(window).summary(); }
  std::uint64_t written_in_all() const {
    std::uint64_t sum = 0;
    for (std::size_t i = 0; i < windows().size(); ++i) sum += summary(i).ledger.written;
    return sum;
  }

  ScratchDirectory scratch_;
  boost::asio::io_context io_{1};
  Aggregator aggregator_;
  FakeSource source_{aggregator_};
  int changes_ = 0;
  bool of_blocks_ = false;  // windows of the time off the CPU
  std::optional<Error> parser_error_;
  std::chrono::steady_clock::duration cleaning_interval_ = std::chrono::minutes(10);
  std::atomic<std::chrono::hours> ahead_{std::chrono::hours(0)};  // of the wall clock
  SessionSlot newest_ = 0;
  std::unique_ptr<Continuous> continuous_;
};

}  // namespace profd::test
