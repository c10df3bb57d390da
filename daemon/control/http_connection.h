// One client's connection: requests in, answers out, one after the other, within limits that no
// client can stretch.
//
// Lives on the io thread and must outlive its run(). File descriptors that a client sends along
// (SCM_RIGHTS) are never taken: the socket is read without room for them, so the kernel drops them.

#pragma once

#include <chrono>
#include <cstddef>

#include <boost/asio/awaitable.hpp>
#include <boost/asio/local/stream_protocol.hpp>
#include <boost/beast/core/flat_buffer.hpp>
#include <boost/beast/http/empty_body.hpp>
#include <boost/beast/http/message.hpp>
#include <boost/beast/http/parser.hpp>
#include <boost/beast/http/string_body.hpp>

#include "daemon/control/routes.h"
#include "daemon/control/service.h"

namespace profd {

struct HttpLimits {
  std::size_t header_bytes = std::size_t{8} << 10;
  std::size_t body_bytes = std::size_t{64} << 10;
  std::chrono::milliseconds request{10'000};  // for a whole request to come in
  std::chrono::milliseconds stall{10'000};    // for each 64 KiB of an answer to be taken
};

class HttpConnection {
 public:
  using Socket = boost::asio::local::stream_protocol::socket;

  // `service` and `counts`, where slow clients are counted, must outlive the connection.
  HttpConnection(Socket socket, Caller caller, Service& service, StatusInfo::Connections& counts,
                 const HttpLimits& limits);

  HttpConnection(const HttpConnection&) = delete;
  HttpConnection& operator=(const HttpConnection&) = delete;

  [[nodiscard]] const Caller& caller() const { return caller_; }

  // Until the client leaves, breaks a limit, or one of the two below ends it.
  boost::asio::awaitable<void> run();

  // No more requests; the answer under way is still given.
  void finish();

  // No more bytes. What the Service is doing for this client is still waited for.
  void abort();

 private:
  using Parser = boost::beast::http::request_parser<boost::beast::http::string_body>;
  using Header = boost::beast::http::response<boost::beast::http::empty_body>;

  // Each returns false when the connection has to end.
  boost::asio::awaitable<bool> exchange();
  boost::asio::awaitable<bool> write(const Reply& reply, bool keep_alive);
  boost::asio::awaitable<bool> write_header(Header& header);
  boost::asio::awaitable<bool> write_bytes(const char* bytes, std::size_t size);
  boost::asio::awaitable<bool> write_file(const OpenedFile& file);

  boost::asio::awaitable<boost::system::error_code> read(Parser& parser);
  bool is_over(const boost::system::error_code& error);

  Socket socket_;
  Caller caller_;
  Service& service_;
  StatusInfo::Connections& counts_;
  HttpLimits limits_;
  boost::beast::flat_buffer buffer_;
};

}  // namespace profd
