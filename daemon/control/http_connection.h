// One client's connection: reads requests and writes answers, one after the other, within limits.
//
// Lives on the io thread and must outlive its run(). The socket is read without room for control
// messages, so the kernel closes the file descriptors that a client sends (SCM_RIGHTS).

#pragma once

#include <sys/types.h>

#include <chrono>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <string_view>

#include <boost/asio/awaitable.hpp>
#include <boost/asio/local/stream_protocol.hpp>
#include <boost/beast/core/flat_buffer.hpp>

#include "daemon/control/answer_budget.h"
#include "daemon/control/routes.h"
#include "daemon/control/service.h"
#include "daemon/control/shared_answers.h"
#include "daemon/storage/worker.h"

namespace profd {

// What one connection may take.
struct HttpLimits {
  std::size_t header_bytes = std::size_t{8} << 10;
  std::size_t body_bytes = std::size_t{64} << 10;
  std::chrono::milliseconds request{10'000};  // until a whole request has arrived
  std::chrono::milliseconds stall{10'000};    // until the client has read 64 KiB of an answer
};

class HttpConnection {
 public:
  using Socket = boost::asio::local::stream_protocol::socket;

  // What all connections share; outlives them.
  struct Shared {
    Service& service;
    Worker& disk_reader;  // reads what the page cache lacks of a result's file
    AnswerBudget& answers;
    SharedAnswers& shared;
    StatusInfo::Connections& counts;  // slow clients
    const HttpLimits& limits;
  };

  // `user` is the one whose uid the caller's is (uid_owners.h).
  HttpConnection(Socket socket, const Caller& caller, uid_t user, const Shared& shared);

  HttpConnection(const HttpConnection&) = delete;
  HttpConnection& operator=(const HttpConnection&) = delete;

  [[nodiscard]] const Caller& caller() const { return caller_; }

  // Returns when the client has disconnected or exceeded a limit, or after finish() or abort().
  boost::asio::awaitable<void> run();

  // Reads no more requests, but completes the answer that has begun. One that waits for something
  // is no longer wanted.
  void finish();

  // Whether the Service is making an answer.
  [[nodiscard]] bool is_answering() const { return answering_; }

  // Reads and writes no more. run() still waits for the Service's answer.
  void abort();

 private:
  void count_slow();

  // A client that has ended its writing alone is connected.
  [[nodiscard]] bool is_connected();

  // Null: no more answers of the user may wait to be read.
  [[nodiscard]] std::unique_ptr<AnswerBudget::Share> take_share(const Reply& reply);

  // Each returns false when the connection must end.
  boost::asio::awaitable<bool> exchange();
  boost::asio::awaitable<void> refuse(const Error& error);
  boost::asio::awaitable<bool> write(Reply reply, bool keep_alive);
  boost::asio::awaitable<bool> write_bytes(std::string_view header, std::string_view body);
  boost::asio::awaitable<bool> write_file(const OpenedFile& file);
  // As pread(2) has it.
  boost::asio::awaitable<ssize_t> read_part(const OpenedFile& file, std::uint64_t begin,
                                            std::span<char> part);

  Socket socket_;
  Caller caller_;
  uid_t user_;
  Service& service_;
  Worker& disk_reader_;
  AnswerBudget& answers_;
  SharedAnswers& shared_;
  StatusInfo::Connections& counts_;
  HttpLimits limits_;
  boost::beast::flat_buffer buffer_;
  bool finishing_ = false;
  bool answering_ = false;
};

}  // namespace profd
