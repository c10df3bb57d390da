// A connection over a network, by TCP, with TLS or without. Each call ends by its limit.
//
// Errors say what happened, to follow "no answer from X: ": kTimeout, or kUnavailable, which
// includes the end of the connection; kPermissionDenied as TlsSession has it. After an error, the
// connection is of no use.

#pragma once

#include <cstddef>
#include <functional>
#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <utility>

#include "ctl/ship/transport/host_lookup.h"
#include "ctl/ship/transport/net_wait.h"
#include "ctl/ship/transport/tls_session.h"
#include "formats/base/result.h"
#include "formats/base/unique_fd.h"

namespace profd {

class NetStream {
 public:
  // Tries the addresses one after the other, each for its share of the time that is left.
  [[nodiscard]] static Result<NetStream> open(const HostAddresses& addresses,
                                              const std::string& port, const WaitLimit& limit);
  NetStream(NetStream&&) = default;
  NetStream& operator=(NetStream&&) = delete;
  NetStream(const NetStream&) = delete;
  NetStream& operator=(const NetStream&) = delete;
  ~NetStream();

  // From here on, bytes are sent and received by TLS. The certificate must be for `host`.
  [[nodiscard]] Result<void> start_tls(const TlsContext& context, const std::string& host,
                                       const WaitLimit& limit);

  // Adds to `sent` how many bytes the other side may have: without an error, all of them.
  [[nodiscard]] Result<void> send(std::string_view bytes, const WaitLimit& limit,
                                  std::size_t& sent);

  // At least one byte; 0: the other side has closed the connection, in TLS with a notice or
  // without.
  [[nodiscard]] Result<std::size_t> receive(std::span<char> space, const WaitLimit& limit);

  // Whether there are bytes to receive, without waiting. An error: the connection has ended.
  [[nodiscard]] Result<bool> has_input();

 private:
  explicit NetStream(UniqueFd socket) : socket_(std::move(socket)) {}

  [[nodiscard]] Result<void> send_raw(std::string_view bytes, const WaitLimit& limit,
                                      std::size_t& sent);
  [[nodiscard]] Result<std::size_t> receive_raw(std::span<char> space, const WaitLimit& limit);
  // Until a step of TLS needs nothing more of the other side. kDone or kClosed.
  [[nodiscard]] Result<TlsSession::Step> finish(const std::function<TlsSession::Step()>& step,
                                                const WaitLimit& limit);
  [[nodiscard]] Result<void> flush(const WaitLimit& limit);
  [[nodiscard]] Result<void> await_verdict(const WaitLimit& limit);

  UniqueFd socket_;
  std::unique_ptr<TlsSession> tls_;  // null: without
};

}  // namespace profd
