// Makes the JSON of results, which can have thousands of files: a large one on a thread of its own.
//
// Privileged callers have one thread and all others have one, so that no user delays root. For
// coroutines of the io thread.

#pragma once

#include <cstddef>
#include <string>

#include <boost/asio/awaitable.hpp>

#include "daemon/storage/worker.h"
#include "formats/api/control_api.h"
#include "formats/base/result.h"

namespace profd {

class AnswerEncoder {
 public:
  // Results of so many files take less than a millisecond, and are encoded by the caller.
  static constexpr std::size_t kMaxFilesAtOnce = 256;

  // An error: no memory.
  [[nodiscard]] boost::asio::awaitable<Result<std::string>> encode(bool is_privileged,
                                                                   ResultInfo result);

 private:
  static constexpr int kNiceness = 10;

  Worker privileged_{"encoder"};
  Worker users_{"user-encoder", kNiceness};
};

}  // namespace profd
