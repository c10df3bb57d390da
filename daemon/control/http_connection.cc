#include "daemon/control/http_connection.h"

#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <string>
#include <utility>
#include <vector>

#include <boost/asio/as_tuple.hpp>
#include <boost/asio/buffer.hpp>
#include <boost/asio/experimental/awaitable_operators.hpp>
#include <boost/asio/steady_timer.hpp>
#include <boost/asio/use_awaitable.hpp>
#include <boost/asio/write.hpp>
#include <boost/beast/http/empty_body.hpp>
#include <boost/beast/http/error.hpp>
#include <boost/beast/http/read.hpp>
#include <boost/beast/http/write.hpp>
#include <spdlog/spdlog.h>

namespace profd {
namespace {

namespace asio = boost::asio;
namespace http = boost::beast::http;
using boost::system::error_code;

constexpr auto kAsValues = asio::as_tuple(asio::use_awaitable);
constexpr std::size_t kChunkBytes = std::size_t{64} << 10;

// An operation of the socket, or error::timed_out once `limit` is over.
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

// What a client is told about a request that could not be read; nothing where it is gone, or was
// only idle.
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
  return fail(ErrorCode::kMalformed, "this is no HTTP request: " + error.message());
}

// The edge where exceptions (out of memory, a mistake of ours) end: the client gets an error, the
// daemon goes on.
asio::awaitable<Reply> answer_guarded(RouteContext context, Caller caller, Request& request) {
  try {
    co_return co_await answer(context, caller, request);
  } catch (const std::exception& mistake) {
    spdlog::error("a request of uid {} failed: {}", caller.uid, mistake.what());
  }
  co_return reply_error(fail(ErrorCode::kInternal, "profd failed on this request",
                             "its log says why: journalctl -u profd"));
}

}  // namespace

HttpConnection::HttpConnection(Socket socket, Caller caller, Service& service,
                               StatusInfo::Connections& counts, const HttpLimits& limits)
    : socket_(std::move(socket)),
      caller_(caller),
      service_(service),
      counts_(counts),
      limits_(limits),
      buffer_(limits.header_bytes + limits.body_bytes) {}

asio::awaitable<void> HttpConnection::run() {
  while (co_await exchange()) {
  }
  error_code ignored;
  socket_.close(ignored);
}

void HttpConnection::finish() {
  error_code ignored;
  socket_.shutdown(Socket::shutdown_receive, ignored);
}

void HttpConnection::abort() {
  error_code ignored;
  socket_.shutdown(Socket::shutdown_both, ignored);
}

asio::awaitable<error_code> HttpConnection::read(Parser& parser) {
  auto operation = http::async_read(socket_, buffer_, parser, kAsValues);
  co_return co_await within(limits_.request, std::move(operation));
}

asio::awaitable<bool> HttpConnection::exchange() {
  Parser parser;
  parser.header_limit(static_cast<std::uint32_t>(limits_.header_bytes));
  parser.body_limit(limits_.body_bytes);
  const error_code error = co_await read(parser);
  if (error) {
    const auto explained = explain(error, parser.got_some() || buffer_.size() > 0, limits_);
    if (explained) {
      if (explained->code == ErrorCode::kTimeout) ++counts_.slow;
      co_await write(reply_error(*explained), false);
    }
    co_return false;
  }
  Request request{parser.get().method(), std::string(parser.get().target()),
                  std::move(parser.get().body())};
  const RouteContext context{service_, counts_};
  const Reply reply = co_await answer_guarded(context, caller_, request);
  co_return co_await write(reply, parser.get().keep_alive());
}

asio::awaitable<bool> HttpConnection::write(const Reply& reply, bool keep_alive) {
  Header header;
  header.result(reply.status);
  header.keep_alive(keep_alive);
  if (reply.status != http::status::no_content) {
    header.set(http::field::content_type, boost::beast::string_view(reply.content_type));
    header.content_length(reply.file ? reply.file->bytes : reply.text.size());
  }
  if (!co_await write_header(header)) co_return false;
  if (reply.file) {
    if (!co_await write_file(*reply.file)) co_return false;
  } else if (!co_await write_bytes(reply.text.data(), reply.text.size())) {
    co_return false;
  }
  co_return keep_alive;
}

// Whether a write has failed, for which a client that does not read may be the cause.
bool HttpConnection::is_over(const error_code& error) {
  if (error == asio::error::timed_out) ++counts_.slow;
  return error.failed();
}

asio::awaitable<bool> HttpConnection::write_header(Header& header) {
  http::response_serializer<http::empty_body> serializer(header);
  auto operation = http::async_write_header(socket_, serializer, kAsValues);
  const error_code error = co_await within(limits_.stall, std::move(operation));
  co_return !is_over(error);
}

asio::awaitable<bool> HttpConnection::write_bytes(const char* bytes, std::size_t size) {
  for (std::size_t done = 0; done < size; done += kChunkBytes) {
    const auto chunk = asio::buffer(bytes + done, std::min(kChunkBytes, size - done));
    auto operation = asio::async_write(socket_, chunk, kAsValues);
    const error_code error = co_await within(limits_.stall, std::move(operation));
    if (is_over(error)) co_return false;
  }
  co_return true;
}

asio::awaitable<bool> HttpConnection::write_file(const OpenedFile& file) {
  std::vector<char> chunk(std::min<std::uint64_t>(kChunkBytes, file.bytes));
  for (std::uint64_t done = 0; done < file.bytes;) {
    const std::size_t wanted = std::min<std::uint64_t>(chunk.size(), file.bytes - done);
    const ssize_t got = ::pread(file.fd.get(), chunk.data(), wanted, static_cast<off_t>(done));
    if (got < 0 && errno == EINTR) continue;
    // The length is promised already: a file that ends early can only be shown by a connection that
    // does too.
    if (got <= 0) co_return false;
    if (!co_await write_bytes(chunk.data(), static_cast<std::size_t>(got))) co_return false;
    done += static_cast<std::uint64_t>(got);
  }
  co_return true;
}

}  // namespace profd
