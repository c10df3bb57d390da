#include "daemon/control/http_connection.h"

#include <poll.h>
#include <sys/uio.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <sstream>
#include <string>
#include <utility>

#include <boost/asio/buffer.hpp>
#include <boost/asio/experimental/awaitable_operators.hpp>
#include <boost/asio/steady_timer.hpp>
#include <boost/asio/write.hpp>
#include <boost/beast/http/empty_body.hpp>
#include <boost/beast/http/error.hpp>
#include <boost/beast/http/parser.hpp>
#include <boost/beast/http/read.hpp>
#include <boost/beast/http/string_body.hpp>
#include <boost/beast/http/write.hpp>

#include "daemon/base/coroutines.h"
#include "daemon/base/log.h"

namespace profd {
namespace {

namespace asio = boost::asio;
namespace http = boost::beast::http;
using boost::system::error_code;

constexpr std::size_t kChunkBytes = std::size_t{64} << 10;

// What the page cache has.
ssize_t read_cached(int fd, std::span<char> part, off_t offset) {
  const iovec buffer{.iov_base = part.data(), .iov_len = part.size()};
  return ::preadv2(fd, &buffer, 1, offset, RWF_NOWAIT);
}

// Waits for an operation of the socket, and cancels it with error::timed_out after `limit`.
asio::awaitable<error_code> within(std::chrono::milliseconds limit,
                                   asio::awaitable<std::tuple<error_code, std::size_t>> operation) {
  using asio::experimental::awaitable_operators::operator||;
  const asio::any_io_executor executor = co_await asio::this_coro::executor;
  asio::steady_timer timer(executor, limit);
  auto wait = timer.async_wait(kAsValues);
  const auto first = co_await (std::move(operation) || std::move(wait));
  if (first.index() == 1) co_return error_code(asio::error::timed_out);
  co_return std::get<0>(std::get<0>(first));
}

// The answer to a request that could not be read; none for a client that has disconnected or was
// idle.
std::optional<Error> explain(const error_code& error, bool began, const HttpLimits& limits) {
  if (error == asio::error::timed_out) {
    if (!began) return std::nullopt;
    return fail(ErrorCode::kTimeout,
                "the request took longer than " + std::to_string(limits.request.count()) + " ms");
  }
  if (error == http::error::header_limit || error == http::error::buffer_overflow) {
    return fail(ErrorCode::kTooLarge,
                "the request's header is over " + std::to_string(limits.header_bytes) + " bytes");
  }
  if (error == http::error::body_limit) {
    return fail(ErrorCode::kTooLarge,
                "the request's body is over " + std::to_string(limits.body_bytes) + " bytes");
  }
  if (error == http::error::end_of_stream || error == http::error::partial_message ||
      error.category() != make_error_code(http::error::bad_method).category()) {
    return std::nullopt;
  }
  return fail(ErrorCode::kMalformed, "could not parse the HTTP request: " + error.message());
}

std::string header_of(const Reply& reply, bool keep_alive) {
  http::response<http::empty_body> header;
  header.result(reply.status);
  header.keep_alive(keep_alive);
  if (reply.status != http::status::no_content) {
    header.set(http::field::content_type, boost::beast::string_view(reply.content_type));
    header.content_length(reply.file ? reply.file->bytes : reply.text.size());
  }
  std::ostringstream text;
  text << header.base();
  return text.str();
}

Reply too_many_answers() {
  Reply reply = reply_error(fail(ErrorCode::kBusy, "too many answers wait to be read",
                                 "read the answers to earlier requests, or try again later"));
  reply.status = http::status::service_unavailable;
  return reply;
}

// Exceptions (no memory, a bug) end here: the client gets an error, and the daemon goes on.
asio::awaitable<Reply> answer_guarded(Service& service, const StatusInfo::Connections& counts,
                                      SharedAnswers& shared, Caller caller, Request& request,
                                      IsWanted is_wanted) {
  try {
    co_return co_await answer(service, counts, shared, caller, request, std::move(is_wanted));
  } catch (const std::exception& problem) {
    log::error("a request of uid {} failed: {}", caller.uid, problem.what());
  }
  co_return reply_error(fail(ErrorCode::kInternal, "profd failed on this request",
                             "its log has the reason: journalctl -u profd"));
}

}  // namespace

HttpConnection::HttpConnection(Socket socket, const Caller& caller, uid_t user,
                               const Shared& shared)
    : socket_(std::move(socket)),
      caller_(caller),
      user_(user),
      service_(shared.service),
      disk_reader_(shared.disk_reader),
      answers_(shared.answers),
      shared_(shared.shared),
      counts_(shared.counts),
      limits_(shared.limits),
      buffer_(limits_.header_bytes + limits_.body_bytes) {}

asio::awaitable<void> HttpConnection::run() {
  for (bool keep_alive = true; keep_alive;) {
    keep_alive = co_await exchange();
  }
  error_code ignored;
  socket_.close(ignored);
}

void HttpConnection::finish() {
  finishing_ = true;
  error_code ignored;
  socket_.shutdown(Socket::shutdown_receive, ignored);
}

void HttpConnection::abort() {
  error_code ignored;
  socket_.shutdown(Socket::shutdown_both, ignored);
}

bool HttpConnection::is_connected() {
  pollfd end{.fd = socket_.native_handle(), .events = 0, .revents = 0};
  return ::poll(&end, 1, 0) == 0;
}

asio::awaitable<bool> HttpConnection::exchange() {
  http::request_parser<http::string_body> parser;
  parser.header_limit(static_cast<std::uint32_t>(limits_.header_bytes));
  parser.body_limit(limits_.body_bytes);
  auto operation = http::async_read(socket_, buffer_, parser, kAsValues);
  const error_code error = co_await within(limits_.request, std::move(operation));
  if (error) {
    const auto explained = explain(error, parser.got_some() || buffer_.size() > 0, limits_);
    if (explained) {
      co_await refuse(*explained);
    }
    co_return false;
  }
  Request request{parser.get().method(), std::string(parser.get().target()),
                  std::move(parser.get().body())};
  IsWanted is_wanted = [this] { return !finishing_ && is_connected(); };
  auto answering =
      answer_guarded(service_, counts_, shared_, caller_, request, std::move(is_wanted));
  answering_ = true;
  Reply reply = co_await std::move(answering);
  answering_ = false;
  // A client takes the body of an answer to HEAD for the beginning of the next answer.
  if (parser.get().method() == http::verb::head) reply.text.clear();
  auto writing = write(std::move(reply), parser.get().keep_alive());
  co_return co_await std::move(writing);
}

// A request that could not be read.
asio::awaitable<void> HttpConnection::refuse(const Error& error) {
  if (error.code == ErrorCode::kTimeout) count_slow();
  count_refusal(service_, caller_, kAnyRequest, error.code);
  auto writing = write(reply_error(error), false);
  co_await std::move(writing);
}

void HttpConnection::count_slow() {
  ++counts_.slow;
  service_.count_refusal(caller_, "connections.slow");
}

std::unique_ptr<AnswerBudget::Share> HttpConnection::take_share(const Reply& reply) {
  return answers_.take(user_, caller_.privileged ? 0 : reply.text.capacity());
}

asio::awaitable<bool> HttpConnection::write(Reply reply, bool keep_alive) {
  const auto share = take_share(reply);
  if (!share) {
    reply = too_many_answers();
    count_refusal(service_, caller_, kAnyRequest, ErrorCode::kBusy);
  }
  const std::string header = header_of(reply, keep_alive);
  bool sent = co_await write_bytes(header, reply.text);
  if (sent && reply.file) {
    sent = co_await write_file(*reply.file);
  }
  if (!sent) co_return false;
  co_return keep_alive;
}

asio::awaitable<bool> HttpConnection::write_bytes(std::string_view header, std::string_view body) {
  while (!header.empty() || !body.empty()) {
    const std::string_view part = body.substr(0, kChunkBytes);
    const std::array<asio::const_buffer, 2> chunk = {asio::buffer(header), asio::buffer(part)};
    auto operation = asio::async_write(socket_, chunk, kAsValues);
    const error_code error = co_await within(limits_.stall, std::move(operation));
    if (error == asio::error::timed_out) count_slow();
    if (error) co_return false;
    header = {};
    body.remove_prefix(part.size());
  }
  co_return true;
}

asio::awaitable<ssize_t> HttpConnection::read_part(const OpenedFile& file, std::uint64_t begin,
                                                   std::span<char> part) {
  const int fd = file.fd.get();
  const auto offset = static_cast<off_t>(file.offset + begin);
  const ssize_t cached = read_cached(fd, part, offset);
  if (cached > 0) co_return cached;
  auto read = [fd, part, offset]() noexcept {
    ssize_t got = -1;
    do {
      got = ::pread(fd, part.data(), part.size(), offset);
    } while (got < 0 && errno == EINTR);
    return got;
  };
  auto reading = disk_reader_.run(std::move(read));
  co_return co_await std::move(reading);
}

asio::awaitable<bool> HttpConnection::write_file(const OpenedFile& file) {
  std::string chunk(std::min<std::uint64_t>(kChunkBytes, file.bytes), '\0');
  for (std::uint64_t done = 0; done < file.bytes;) {
    const std::size_t wanted = std::min<std::uint64_t>(chunk.size(), file.bytes - done);
    auto reading = read_part(file, done, std::span(chunk).first(wanted));
    const ssize_t got = co_await std::move(reading);
    // The header with the length is sent already: only a closed connection shows that the file is
    // shorter.
    if (got <= 0) co_return false;
    const std::string_view bytes(chunk.data(), static_cast<std::size_t>(got));
    const bool sent = co_await write_bytes({}, bytes);
    if (!sent) co_return false;
    done += bytes.size();
  }
  co_return true;
}

}  // namespace profd
