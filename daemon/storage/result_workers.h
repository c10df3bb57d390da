// The workers for what callers ask for: one for privileged callers, and one for all others, who
// take turns. So no privileged caller waits for a job of an unprivileged one, and no user waits for
// more than one job of each other user.

#pragma once

#include <sys/types.h>

#include <cstdint>
#include <deque>
#include <map>
#include <memory>
#include <optional>
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
  explicit UserTurns(boost::asio::io_context& io) : changed_(io) {}

  // Returns when it is the caller's turn, which lasts until end().
  [[nodiscard]] boost::asio::awaitable<void> begin(uid_t user);
  void end();

 private:
  [[nodiscard]] std::uint64_t next() const;

  std::map<uid_t, std::deque<std::uint64_t>> waiting_;  // never an empty queue
  std::uint64_t last_ticket_ = 0;
  uid_t last_user_ = 0;
  bool is_taken_ = false;
  AsyncCondition changed_;
};

class ResultWorkers {
 public:
  // No parser may be null.
  ResultWorkers(boost::asio::io_context& io, std::unique_ptr<Parser> for_privileged,
                std::unique_ptr<Parser> for_users)
      : turns_(io),
        privileged_(std::move(for_privileged), "store-worker"),
        users_(std::move(for_users), "user-worker", kNiceness) {}

  // StoreWorker::run() for a privileged caller without `user`, otherwise for that user.
  template <class Job>
  [[nodiscard]] boost::asio::awaitable<std::invoke_result_t<Job&, CodeNaming&>> run(
      std::optional<uid_t> user, Job job) {
    if (!user) {
      auto running = privileged_.run(std::move(job));
      co_return co_await std::move(running);
    }
    co_await turns_.begin(*user);
    auto running = users_.run(std::move(job));
    auto value = co_await std::move(running);
    turns_.end();
    co_return value;
  }

  // Returns when all earlier jobs of privileged callers are done.
  [[nodiscard]] boost::asio::awaitable<void> catch_up() { return privileged_.catch_up(); }

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
  StoreWorker privileged_;
  StoreWorker users_;
};

}  // namespace profd
