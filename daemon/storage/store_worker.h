// The worker that encodes and stores results and reads the history, with what it names code with.

#pragma once

#include <atomic>
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
    auto with_naming = [this, job = std::move(job)]() mutable {
      auto value = job(naming_);
      parser_restarts_ = naming_.parser().restarts();
      stats_.set(naming_.stats());
      return value;
    };
    return worker_.run(std::move(with_naming));
  }

  // Returns when all earlier jobs are done.
  [[nodiscard]] boost::asio::awaitable<void> catch_up() {
    auto nothing = [](CodeNaming&) -> Result<void> { return {}; };
    co_await run(std::move(nothing));
  }

  // After all earlier jobs, drops names that none needed for minutes, if there are many.
  [[nodiscard]] boost::asio::awaitable<void> trim_names() {
    constexpr std::uint64_t kMany = NameCache::kMaxBytes / NameCache::kUnusedPart;
    if (naming_stats().cached_bytes <= kMany) co_return;
    auto trim = [](CodeNaming& naming) -> Result<void> {
      naming.files().trim();
      return {};
    };
    co_await run(std::move(trim));
  }

  // Any thread.
  [[nodiscard]] std::uint64_t parser_restarts() const { return parser_restarts_; }
  [[nodiscard]] NamingStats naming_stats() const { return stats_.get(); }

 private:
  CodeNaming naming_;
  std::atomic<std::uint64_t> parser_restarts_ = 0;
  SharedValue<NamingStats> stats_;
  Worker worker_;  // last: it ends its jobs before `naming_` is destroyed
};

}  // namespace profd
