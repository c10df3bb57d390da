// The workers for what callers ask for: one for privileged callers, and one for all others, who
// take turns. So no privileged caller waits for a job of an unprivileged one, and no user waits for
// more than one job of each other user.

#pragma once

#include <sys/types.h>

#include <cstddef>
#include <cstdint>
#include <deque>
#include <map>
#include <memory>
#include <optional>
#include <set>
#include <type_traits>
#include <utility>

#include <boost/asio/awaitable.hpp>
#include <boost/asio/io_context.hpp>

#include "daemon/base/coroutines.h"
#include "daemon/storage/store_worker.h"

namespace profd {

// Turns of users at one thing, round robin. On the io thread.
class UserTurns {
 public:
  // So many turns at once.
  explicit UserTurns(boost::asio::io_context& io, std::size_t places = 1)
      : places_(places), changed_(io) {}

  // Runs `task` when it is the user's turn, which lasts until the task has ended.
  template <class T>
  [[nodiscard]] boost::asio::awaitable<T> run(uid_t user, boost::asio::awaitable<T> task) {
    co_await begin(user);
    std::optional<T> value;
    try {
      T result = co_await std::move(task);
      value.emplace(std::move(result));
    } catch (...) {
      end(user);
      throw;
    }
    end(user);
    co_return std::move(*value);
  }

  // Whether a task of this user runs or waits.
  [[nodiscard]] bool has(uid_t user) const {
    return active_.contains(user) || waiting_.contains(user);
  }

 private:
  boost::asio::awaitable<void> begin(uid_t user);
  void end(uid_t user);
  [[nodiscard]] std::uint64_t next() const;
  void stop_waiting(uid_t user, std::uint64_t ticket);

  std::size_t places_;
  std::multiset<uid_t> active_;
  std::map<uid_t, std::deque<std::uint64_t>> waiting_;  // never an empty queue
  std::uint64_t last_ticket_ = 0;
  uid_t last_user_ = 0;
  AsyncCondition changed_;
};

class ResultWorkers {
 public:
  // No parser may be null.
  ResultWorkers(boost::asio::io_context& io, std::unique_ptr<Parser> for_privileged,
                std::unique_ptr<Parser> for_users)
      : turns_(io),
        privileged_(std::move(for_privileged), "store-worker", 0, kernel_symbols_),
        users_(std::move(for_users), "user-worker", kNiceness, kernel_symbols_) {}

  // For other workers too; not null.
  [[nodiscard]] const std::shared_ptr<SharedKernelSymbols>& kernel_symbols() const {
    return kernel_symbols_;
  }

  // StoreWorker::run() for a privileged caller without `user`, otherwise for that user.
  template <class Job>
  [[nodiscard]] boost::asio::awaitable<std::invoke_result_t<Job&, CodeNaming&>> run(
      std::optional<uid_t> user, Job job) {
    if (!user) {
      auto running = privileged_.run(std::move(job));
      co_return co_await std::move(running);
    }
    auto running = turns_.run(*user, users_.run(std::move(job)));
    co_return co_await std::move(running);
  }

  // Returns when all earlier jobs of privileged callers are done.
  [[nodiscard]] boost::asio::awaitable<void> catch_up() { return privileged_.catch_up(); }

  // To be called every minute or so (StoreWorker). Returns at once while an earlier call waits.
  [[nodiscard]] boost::asio::awaitable<void> trim_names();

  // Any thread.
  [[nodiscard]] std::uint64_t parser_restarts() const {
    return privileged_.parser_restarts() + users_.parser_restarts();
  }
  [[nodiscard]] NamingStats naming_stats() const {
    NamingStats stats = privileged_.naming_stats();
    stats += users_.naming_stats();
    return stats;
  }

 private:
  static constexpr int kNiceness = 10;

  UserTurns turns_;
  std::shared_ptr<SharedKernelSymbols> kernel_symbols_ = std::make_shared<SharedKernelSymbols>();
  StoreWorker privileged_;
  StoreWorker users_;
  bool is_trimming_ = false;
};

}  // namespace profd
