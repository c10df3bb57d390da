// Any bytes from a client of the control socket, who then sends no more. The connection ends, and
// what it answered are whole HTTP responses.

#include <chrono>
#include <cstdint>
#include <string>
#include <utility>

#include <boost/asio/buffer.hpp>
#include <boost/asio/co_spawn.hpp>
#include <boost/asio/detached.hpp>
#include <boost/asio/io_context.hpp>
#include <boost/asio/local/connect_pair.hpp>
#include <boost/asio/local/stream_protocol.hpp>
#include <boost/asio/read.hpp>
#include <boost/asio/write.hpp>
#include <boost/beast/core/error.hpp>
#include <boost/beast/http/parser.hpp>
#include <boost/beast/http/string_body.hpp>

#include "daemon/base/coroutines.h"
#include "daemon/control/http_connection.h"
#include "tests/daemon/control/fake_service.h"
#include "tests/fuzz/require.h"

namespace {

using namespace profd;
namespace asio = boost::asio;
using Socket = HttpConnection::Socket;

constexpr uid_t kUser = 1000;

asio::awaitable<void> send(Socket& socket, const std::string& bytes) {
  co_await asio::async_write(socket, asio::buffer(bytes), kAsValues);
  boost::system::error_code ignored;
  socket.shutdown(Socket::shutdown_send, ignored);
}

asio::awaitable<void> receive(Socket& socket, std::string& bytes) {
  co_await asio::async_read(socket, asio::dynamic_buffer(bytes), kAsValues);
}

// The answers of a connection to all that a client sends.
std::string exchange(const std::string& sent) {
  asio::io_context io(1);
  Socket client(io);
  Socket server(io);
  asio::local::connect_pair(client, server);
  FakeService service;
  service.windows.windows.emplace_back();
  StatusInfo::Connections counts;
  // One for all inputs: a connection waits for its jobs, and to start and end a thread of low
  // priority takes longer than all else of an input.
  static Worker disk_reader("disk-reader");
  AnswerBudget answers;
  SharedAnswers shared(std::chrono::milliseconds(100));
  const HttpLimits limits;
  HttpConnection connection(std::move(server), Caller{.uid = kUser}, kUser,
                            {.service = service,
                             .disk_reader = disk_reader,
                             .answers = answers,
                             .shared = shared,
                             .counts = counts,
                             .limits = limits});
  std::string received;
  bool has_ended = false;
  asio::co_spawn(io, connection.run(), [&](const std::exception_ptr& error) {
    has_ended = true;
    require(!error, "a connection ends without an exception");
  });
  asio::co_spawn(io, send(client, sent), asio::detached);
  asio::co_spawn(io, receive(client, received), asio::detached);
  io.run();
  require(has_ended, "a connection ends");
  require(counts.slow == 0, "a client that was not slow is not counted as slow");
  return received;
}

void require_responses(const std::string& bytes) {
  auto rest = asio::buffer(bytes);
  while (rest.size() != 0) {
    boost::beast::http::response_parser<boost::beast::http::string_body> parser;
    parser.eager(true);
    boost::system::error_code error;
    rest += parser.put(rest, error);
    require(!error && parser.is_done(), "an answer is a whole response");
  }
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  require_responses(exchange({reinterpret_cast<const char*>(data), size}));
  return 0;
}
