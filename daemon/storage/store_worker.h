// The worker that encodes and stores results and reads the history, with what it names code with.

#pragma once

#include <atomic>
#include <chrono>
#include <cstdint>
#include <memory>
#include <type_traits>
#include <utility>

#include <boost/asio/awaitable.hpp>

#include "collectors/parser/parser.h"
#include "daemon/base/shared_value.h"
#include "daemon/names/code_naming.h"
#include "daemon/storage/worker.h"
#include "formats/base/result.h"

namespace profd {

class StoreWorker {
 public:
  // `parser` belongs to the worker's thread from here on; it and `kernel` are not null. `name` and
  // `niceness` are Worker's.
  StoreWorker(std::unique_ptr<Parser> parser, const char* name, int niceness = 0,
              std::shared_ptr<SharedKernelSymbols> kernel = std::make_shared<SharedKernelSymbols>())
      : naming_(std::move(parser), {}, std::move(kernel)), worker_(name, niceness) {}

  // Worker::run() with the CodeNaming as the job's argument. Other jobs wait as long as this one
  // runs.
  template <class Job>
  [[nodiscard]] boost::asio::awaitable<std::invoke_result_t<Job&, CodeNaming&>> run(Job job) {
    auto running = run_now(std::move(job));
    auto value = co_await std::move(running);
    used_at_ = std::chrono::steady_clock::now();
    co_return value;
  }

  // Returns when all earlier jobs are done.
  [[nodiscard]] boost::asio::awaitable<void> catch_up() {
    auto nothing = [](CodeNaming&) -> Result<void> { return {}; };
    auto running = run_now(std::move(nothing));
    (void)co_await std::move(running);
  }

  // After all earlier jobs, drops names that none needed for minutes, and what else is kept of
  // files: if there are many names, or a job may have left some.
  [[nodiscard]] boost::asio::awaitable<void> trim_names() {
    constexpr std::uint64_t kMany = NameCache::kMaxBytes / NameCache::kUnusedPart;
    const auto unused = std::chrono::steady_clock::now() - used_at_;
    if (naming_stats().cached_bytes <= kMany && unused > 2 * NameCache::kUnused) co_return;
    auto trim = [](CodeNaming& naming) -> Result<void> {
      naming.files().trim();
      return {};
    };
    auto trimming = run_now(std::move(trim));
    (void)co_await std::move(trimming);
  }

  // Any thread.
  [[nodiscard]] std::uint64_t parser_restarts() const { return parser_restarts_; }
  [[nodiscard]] NamingStats naming_stats() const { return stats_.get(); }

 private:
  template <class Job>
  [[nodiscard]] boost::asio::awaitable<std::invoke_result_t<Job&, CodeNaming&>> run_now(Job job) {
    auto with_naming = [this, job = std::move(job)]() mutable {
      auto value = job(naming_);
      parser_restarts_ = naming_.parser().restarts();
      stats_.set(naming_.stats());
      return value;
    };
    return worker_.run(std::move(with_naming));
  }

  CodeNaming naming_;
  std::chrono::steady_clock::time_point used_at_{};  // when the last job of run() ended
  std::atomic<std::uint64_t> parser_restarts_ = 0;
  SharedValue<NamingStats> stats_;
  Worker worker_;  // last: it ends its jobs before `naming_` is destroyed
};

}  // namespace profd
