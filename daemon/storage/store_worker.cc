#include "daemon/storage/store_worker.h"

#include <chrono>
#include <exception>
#include <utility>

namespace profd {
namespace {

// Nothing may be thrown on the worker's thread. What can be is a lack of memory.
Result<StoredResult> write_without_throwing(const std::string& directory,
                                            const SessionSnapshot& snapshot, Parser& parser,
                                            StoredResult result) {
  try {
    return write_result(directory, snapshot, parser, std::move(result));
  } catch (const std::exception& problem) {
    return fail(ErrorCode::kInternal,
                std::string("could not encode the samples: ") + problem.what());
  }
}

}  // namespace

boost::asio::awaitable<void> StoreWorker::catch_up() {
  auto nothing = [] { return true; };
  co_await worker_.run(std::move(nothing));
}

boost::asio::awaitable<StoreWorker::Written> StoreWorker::write(std::string directory,
                                                                SessionSnapshot snapshot,
                                                                StoredResult result) {
  result.created = std::chrono::system_clock::now();
  // Samples that are on the disk are let go on the worker, where that holds nobody up.
  auto work = [&parser = *parser_, &restarts = parser_restarts_, directory = std::move(directory),
               snapshot = std::move(snapshot), result = std::move(result)]() mutable {
    Written written{
        .result = write_without_throwing(directory, snapshot, parser, std::move(result)),
        .unwritten = std::nullopt};
    restarts = parser.restarts();
    if (!written.result) written.unwritten = std::move(snapshot);
    return written;
  };
  co_return co_await worker_.run(std::move(work));
}

}  // namespace profd
