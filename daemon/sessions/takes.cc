// The samples of a running session, part by part.
//
// A part is in no result: the caller gets it at once, so nothing is written to the disk, and a
// session that is taken from for hours does not grow.

#include <chrono>
#include <utility>

#include "collectors/host/thread_priority.h"
#include "daemon/base/coroutines.h"
#include "daemon/sessions/session.h"

namespace profd {
namespace {

// Images of processes that have ended, and files, are released after a take. That visits each
// image, so not after every one.
constexpr std::chrono::seconds kReleaseInterval{10};

}  // namespace

boost::asio::awaitable<Result<std::string>> Sessions::take(Caller caller, std::string id) {
  const Result<Found> found = find(caller, id);
  if (!found) co_return found.error();
  const SessionPtr session = found->session;
  if (!session || !session->recording->is_running()) {
    co_return fail(ErrorCode::kInvalidArgument, "session " + id + " has ended",
                   "profctl stop " + id + " fetches the rest");
  }
  session->renew_lease();
  if (session->is_being_taken) {
    co_return fail(ErrorCode::kBusy, "another take of session " + id + " is under way",
                   "try again when it has its answer");
  }
  session->is_being_taken = true;
  auto taking = take_part(session, user_of(caller, parts_.owners));
  Result<std::string> profile = co_await std::move(taking);
  session->is_being_taken = false;
  co_return profile;
}

// A part that could not be encoded, for want of memory, is the answer of the next take. The worker
// destroys the others, since that takes long.
boost::asio::awaitable<Result<std::string>> Sessions::take_part(SessionPtr session, User waiting) {
  if (!session->part) {
    session->part_bytes = session->recording->bytes();
    auto taking = session->recording->take();
    Result<NamedPart> taken = co_await std::move(taking);
    if (!taken) {
      session->part_bytes = 0;
      co_return taken.error();
    }
    session->part = std::move(*taken);
  }
  auto job = [&part = session->part](CodeNaming& naming) {
    Result<std::string> profile = part(naming);
    if (profile) {
      const PriorityOfIoThread priority;  // the io thread allocated the samples
      part = nullptr;
    }
    return profile;
  };
  auto encoding = parts_.workers.run(waiting, std::move(job));
  Result<std::string> profile = co_await std::move(encoding);
  if (!profile) co_return profile;
  session->part_bytes = 0;
  const auto now = std::chrono::steady_clock::now();
  if (now - session->part_released_at >= kReleaseInterval) {
    session->part_released_at = now;
    spawn(parts_.io, release(session->recording));
  }
  co_return profile;
}

}  // namespace profd
