#include "ctl/ship/transport/net_stream.h"

#include <netinet/in.h>
#include <netinet/tcp.h>
#include <poll.h>
#include <sys/socket.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <chrono>

#include <netdb.h>

#include "formats/base/errors.h"

namespace profd {
namespace {

using Step = TlsSession::Step;
using SteadyClock = std::chrono::steady_clock;

constexpr std::size_t kRecordBytes = std::size_t{16} << 10;  // of TLS at most
constexpr int kMaxReadsAtOnce = 64;
constexpr std::chrono::seconds kVerdictTime{1};

struct FreeSocketAddress {
  void operator()(addrinfo* list) const { ::freeaddrinfo(list); }
};

// Returns 0 or an errno.
int connect_to(const std::string& address, const std::string& port, const WaitLimit& limit,
               UniqueFd& socket) {
  addrinfo hints{};
  hints.ai_flags = AI_NUMERICHOST | AI_NUMERICSERV;
  hints.ai_socktype = SOCK_STREAM;
  addrinfo* found = nullptr;
  if (::getaddrinfo(address.c_str(), port.c_str(), &hints, &found) != 0) return EINVAL;
  const std::unique_ptr<addrinfo, FreeSocketAddress> list(found);
  socket.reset(::socket(found->ai_family, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0));
  if (!socket.valid()) return errno;
  const int on = 1;
  (void)::setsockopt(socket.get(), IPPROTO_TCP, TCP_NODELAY, &on, sizeof on);
  if (::connect(socket.get(), found->ai_addr, found->ai_addrlen) == 0) return 0;
  if (errno != EINPROGRESS) return errno;
  if (const int error = wait_ready(socket.get(), POLLOUT, limit); error != 0) return error;
  int result = 0;
  socklen_t size = sizeof result;
  return ::getsockopt(socket.get(), SOL_SOCKET, SO_ERROR, &result, &size) == 0 ? result : errno;
}

WaitLimit share_of(const WaitLimit& limit, std::size_t shares) {
  const auto now = SteadyClock::now();
  return {.until = now + (limit.until - now) / static_cast<std::int64_t>(shares),
          .stop_fd = limit.stop_fd};
}

Error closed_error() { return fail(ErrorCode::kUnavailable, "it closed the connection"); }

}  // namespace

Result<NetStream> NetStream::open(const HostAddresses& addresses, const std::string& port,
                                  const WaitLimit& limit) {
  int error = EADDRNOTAVAIL;
  for (std::size_t i = 0; i < addresses.size() && error != ECANCELED; ++i) {
    UniqueFd socket;
    error = connect_to(addresses[i], port, share_of(limit, addresses.size() - i), socket);
    if (error == 0) return NetStream(std::move(socket));
  }
  return net_error(error);
}

NetStream::~NetStream() {
  if (!tls_) return;
  tls_->close();
  const std::string bytes = tls_->take_output();
  (void)::send(socket_.get(), bytes.data(), bytes.size(), MSG_NOSIGNAL | MSG_DONTWAIT);
}

Result<void> NetStream::start_tls(const TlsContext& context, const std::string& host,
                                  const WaitLimit& limit) {
  tls_ = std::make_unique<TlsSession>(context, host);
  const auto shaken = finish([this] { return tls_->handshake(); }, limit);
  if (!shaken) return shaken.error();
  if (*shaken == Step::kClosed) {
    return fail(ErrorCode::kUnavailable, "it closed the connection in the handshake of TLS",
                "check that the port of the url speaks TLS");
  }
  return tls_->awaits_verdict() ? await_verdict(limit) : Result<void>();
}

// Else a refusal would come after a request, which would then seem to have arrived. The usual
// servers send session tickets when they accept, so this waits for a round trip only.
Result<void> NetStream::await_verdict(const WaitLimit& limit) {
  const WaitLimit soon{.until = std::min(limit.until, SteadyClock::now() + kVerdictTime),
                       .stop_fd = limit.stop_fd};
  if (wait_ready(socket_.get(), POLLIN, soon) != 0) return {};
  const auto input = has_input();
  if (!input) return input.error();
  return {};
}

Result<void> NetStream::send(std::string_view bytes, const WaitLimit& limit, std::size_t& sent) {
  if (!tls_) return send_raw(bytes, limit, sent);
  while (!bytes.empty()) {
    const std::string_view record = bytes.substr(0, kRecordBytes);
    const Step step = tls_->write(record);
    if (step == Step::kFailed) return tls_->error();
    if (step != Step::kDone) return closed_error();
    if (auto flushed = flush(limit); !flushed) return flushed;
    sent += record.size();
    bytes.remove_prefix(record.size());
  }
  return {};
}

Result<std::size_t> NetStream::receive(std::span<char> space, const WaitLimit& limit) {
  if (!tls_) return receive_raw(space, limit);
  std::size_t count = 0;
  const auto step = finish([&] { return tls_->read(space, count); }, limit);
  if (!step) return step.error();
  return *step == Step::kClosed ? 0 : count;
}

Result<bool> NetStream::has_input() {
  std::array<char, kRecordBytes> bytes;
  for (int i = 0; i < kMaxReadsAtOnce; ++i) {
    const Step step = tls_ ? tls_->peek() : Step::kWantsInput;
    if (step == Step::kDone) return true;
    if (step == Step::kFailed) return tls_->error();
    if (step == Step::kClosed) return closed_error();
    const ssize_t count = ::recv(socket_.get(), bytes.data(), bytes.size(),
                                 tls_ ? MSG_DONTWAIT : MSG_DONTWAIT | MSG_PEEK);
    if (count < 0 && errno == EINTR) continue;
    if (count < 0 && errno == EAGAIN) return false;
    if (count < 0) return net_error(errno);
    if (count == 0) return closed_error();
    if (!tls_) return true;
    tls_->put_input({bytes.data(), static_cast<std::size_t>(count)});
  }
  return true;
}

Result<void> NetStream::send_raw(std::string_view bytes, const WaitLimit& limit,
                                 std::size_t& sent) {
  while (!bytes.empty()) {
    const ssize_t count =
        ::send(socket_.get(), bytes.data(), bytes.size(), MSG_NOSIGNAL | MSG_DONTWAIT);
    if (count >= 0) {
      sent += static_cast<std::size_t>(count);
      bytes.remove_prefix(static_cast<std::size_t>(count));
    } else if (errno != EINTR && errno != EAGAIN) {
      return net_error(errno);
    } else if (const int error = wait_ready(socket_.get(), POLLOUT, limit); error != 0) {
      return net_error(error);
    }
  }
  return {};
}

Result<std::size_t> NetStream::receive_raw(std::span<char> space, const WaitLimit& limit) {
  while (true) {
    // First, since bytes that come without end would keep this from the limit.
    if (const int error = wait_ready(socket_.get(), POLLIN, limit); error != 0) {
      return net_error(error);
    }
    const ssize_t count = ::recv(socket_.get(), space.data(), space.size(), MSG_DONTWAIT);
    if (count >= 0) return static_cast<std::size_t>(count);
    if (errno != EINTR && errno != EAGAIN) return net_error(errno);
  }
}

Result<TlsSession::Step> NetStream::finish(const std::function<TlsSession::Step()>& step,
                                           const WaitLimit& limit) {
  std::array<char, kRecordBytes> bytes;
  while (true) {
    const Step done = step();
    const auto flushed = flush(limit);  // of a failure too: the other side gets its reason
    if (done == Step::kFailed) return tls_->error();
    if (!flushed) return flushed.error();
    if (done != Step::kWantsInput) return done;
    const auto count = receive_raw(bytes, limit);
    if (!count) return count.error();
    if (*count == 0) return Step::kClosed;
    tls_->put_input({bytes.data(), *count});
  }
}

Result<void> NetStream::flush(const WaitLimit& limit) {
  std::size_t sent = 0;
  return send_raw(tls_->take_output(), limit, sent);
}

}  // namespace profd
