// Encodes the samples of ended sessions, and of dumps, into the store: on the worker's thread, one
// after the other, while the io thread goes on.

#pragma once

#include <atomic>
#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <type_traits>
#include <utility>

#include <boost/asio/awaitable.hpp>

#include "collectors/parser/parser.h"
#include "daemon/samples/snapshot.h"
#include "daemon/storage/result_store.h"
#include "daemon/storage/worker.h"
#include "formats/base/result.h"

namespace profd {

class StoreWorker {
 public:
  // `parser`, not null, is the worker thread's from here on.
  explicit StoreWorker(std::unique_ptr<Parser> parser) : parser_(std::move(parser)) {}

  // The samples come back when they could not be stored.
  struct Written {
    Result<StoredResult> result;
    std::optional<SessionSnapshot> unwritten;
  };

  // Any other work, given the parser: `work` must not throw, and takes about as long as others may
  // have to wait for it.
  template <class Work>
  [[nodiscard]] boost::asio::awaitable<std::invoke_result_t<Work, Parser&>> run(Work work) {
    auto with_parser = [&parser = *parser_, work = std::move(work)]() mutable {
      return work(parser);
    };
    return worker_.run(std::move(with_parser));
  }

  // Into `directory`, for a coroutine of the io thread. `result` says whose and what it is; the
  // rest is filled in.
  [[nodiscard]] boost::asio::awaitable<Written> write(std::string directory,
                                                      SessionSnapshot snapshot,
                                                      StoredResult result);

  // Returns when all that was given before is done.
  [[nodiscard]] boost::asio::awaitable<void> catch_up();

  // On any thread.
  [[nodiscard]] std::uint64_t parser_restarts() const { return parser_restarts_; }

 private:
  std::unique_ptr<Parser> parser_;
  std::atomic<std::uint64_t> parser_restarts_ = 0;
  Worker worker_;
};

}  // namespace profd
