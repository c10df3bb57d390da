// Accepts the connections of a TCP port, and bounds their number.
//
// The thread of run() owns all connections. A connection counts until its coroutine has ended;
// errors of a connection end that connection.

#pragma once

#include <cstddef>
#include <functional>

#include <boost/asio/awaitable.hpp>
#include <boost/asio/io_context.hpp>
#include <boost/asio/ip/tcp.hpp>

namespace profd {

class TcpListener {
 public:
  // Is no coroutine itself, but returns one that does not use the function.
  using Serve = std::function<boost::asio::awaitable<void>(boost::asio::ip::tcp::socket socket)>;
  // Closes a connection for a new one. False: none can be closed.
  using MakeRoom = std::function<bool()>;

  // Throws boost::system::system_error: it can't listen there.
  TcpListener(const boost::asio::ip::tcp::endpoint& address, std::size_t connections)
      : acceptor_(io_, address), limit_(connections) {}
  TcpListener(const TcpListener&) = delete;
  TcpListener& operator=(const TcpListener&) = delete;
  ~TcpListener() = default;

  // Where it listens: with the port that was free.
  [[nodiscard]] boost::asio::ip::tcp::endpoint address() const {
    return acceptor_.local_endpoint();
  }
  // Of the connections. They are destroyed with the listener.
  [[nodiscard]] boost::asio::io_context& context() { return io_; }

  // Returns when `stop_fd` can be read. Where there are too many connections and none is closed, a
  // new one is closed. Throws boost::system::system_error where it can't wait for that, and what
  // ends the accepting, for example std::bad_alloc; then the listener is of no use.
  void run(int stop_fd, Serve serve, MakeRoom make_room = {});

 private:
  boost::asio::awaitable<void> accept_all();
  // False: it could not begin, and the connection is closed.
  bool start_serving(boost::asio::ip::tcp::socket socket);
  [[nodiscard]] bool has_room() const;

  boost::asio::io_context io_;
  boost::asio::ip::tcp::acceptor acceptor_;
  std::size_t limit_;
  std::size_t connections_ = 0;
  Serve serve_;
  MakeRoom make_room_;
};

}  // namespace profd
