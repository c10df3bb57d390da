#include "daemon/control/host_profile.h"

#include <charconv>
#include <string>
#include <system_error>
#include <utility>

#include <boost/asio/redirect_error.hpp>
#include <boost/asio/steady_timer.hpp>
#include <boost/asio/this_coro.hpp>
#include <boost/asio/use_awaitable.hpp>

#include "formats/api/start_request.h"
#include "formats/base/errors.h"

namespace profd {
namespace {

namespace asio = boost::asio;

constexpr std::chrono::seconds kUsualTime{30};
constexpr int kMaxSeconds = 600;
// A session may end before its time: when its targets end, its client goes, or profd stops.
constexpr std::chrono::milliseconds kAskInterval{200};
// Should profile_host() end with an exception, its session ends by itself.
constexpr std::uint64_t kLeaseMs = 10'000;

// Others may profile their own processes alone.
StartRequest request_of(const Caller& caller, std::chrono::seconds time) {
  StartRequest request;
  request.target.all = caller.privileged;
  if (!caller.privileged) request.target.uids = {caller.uid};
  request.duration_ms = static_cast<std::uint64_t>(std::chrono::milliseconds(time).count());
  request.lease_ms = kLeaseMs;
  return request;
}

asio::awaitable<void> wait_for_end(Service& service, const Caller& caller,
                                   const std::string& session, const IsWanted& is_wanted) {
  asio::steady_timer timer(co_await asio::this_coro::executor);
  while (is_wanted()) {
    const Result<SessionInfo> info = service.session(caller, session);
    if (!info || info->state != "running") co_return;
    timer.expires_after(kAskInterval);
    boost::system::error_code ignored;
    co_await timer.async_wait(asio::redirect_error(asio::use_awaitable, ignored));
  }
}

}  // namespace

Result<std::chrono::seconds> parse_profile_query(std::string_view query) {
  constexpr std::string_view kKey = "seconds=";
  if (query.empty()) return kUsualTime;
  int seconds = 0;
  const char* const end = query.data() + query.size();
  const bool has_key = query.starts_with(kKey);
  const auto parsed = std::from_chars(query.data() + (has_key ? kKey.size() : 0), end, seconds);
  const bool is_number = parsed.ec == std::errc() && parsed.ptr == end;
  if (has_key && is_number && seconds >= 1 && seconds <= kMaxSeconds) {
    return std::chrono::seconds(seconds);
  }
  return invalid_argument("expected ?seconds=N with N from 1 to 600");
}

asio::awaitable<Result<OpenedFile>> profile_host(Service& service, Caller caller,
                                                 std::chrono::seconds time, IsWanted is_wanted) {
  auto starting = service.start(caller, request_of(caller, time));
  const Result<std::string> session = co_await std::move(starting);
  if (!session) co_return session.error();
  auto waiting = wait_for_end(service, caller, *session, is_wanted);
  co_await std::move(waiting);
  auto stopping = service.stop(caller, *session);
  const Result<ResultInfo> result = co_await std::move(stopping);
  if (!result) {
    (void)service.remove_result(caller, *session);  // the data that could not be stored
    co_return result.error();
  }
  Result<OpenedFile> file = fail(ErrorCode::kNotFound, "the result has no profile with names");
  if (result->named_profile) {
    file = service.open_result_file(caller, result->result, result->named_profile->path);
  }
  (void)service.remove_result(caller, result->result);
  co_return file;
}

}  // namespace profd
