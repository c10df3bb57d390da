// Makes the JSON of results, which can have thousands of files, and of the history, which can have
// thousands of processes: a large one on a thread of its own.
//
// Privileged callers have one thread and all others have one, so that no user delays root. For
// coroutines of the io thread.

#pragma once

#include <cstddef>
#include <string>

#include <boost/asio/awaitable.hpp>

#include "daemon/storage/worker.h"
#include "formats/api/control_api.h"
#include "formats/api/history_api.h"
#include "formats/base/result.h"

namespace profd {

class AnswerEncoder {
 public:
  // So many files, groups and processes take less than a millisecond, and are encoded by the
  // caller.
  static constexpr std::size_t kMaxEntriesAtOnce = 256;

  // An error: no memory.
  [[nodiscard]] boost::asio::awaitable<Result<std::string>> encode(bool is_privileged,
                                                                   ResultInfo result);
  [[nodiscard]] boost::asio::awaitable<Result<std::string>> encode(bool is_privileged,
                                                                   History history);
  [[nodiscard]] boost::asio::awaitable<Result<std::string>> encode(bool is_privileged,
                                                                   WindowShares window);

 private:
  static constexpr int kNiceness = 10;

  template <class Answer>
  boost::asio::awaitable<Result<std::string>> encode_entries(bool is_privileged,
                                                             std::size_t entries, Answer answer);

  Worker privileged_{"encoder"};
  Worker users_{"user-encoder", kNiceness};
};

}  // namespace profd
