#include "daemon/xray/apps.h"

#include <fcntl.h>
#include <poll.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/time.h>
#include <sys/un.h>
#include <unistd.h>

#include <algorithm>
#include <utility>

#include <boost/asio/as_tuple.hpp>
#include <boost/asio/co_spawn.hpp>
#include <boost/asio/detached.hpp>
#include <boost/asio/use_awaitable.hpp>
#include <spdlog/spdlog.h>

#include "daemon/xray/target.h"

namespace profd {
namespace {

using boost::asio::posix::stream_descriptor;

constexpr auto kTuple = boost::asio::as_tuple(boost::asio::use_awaitable);
constexpr int kBacklog = 256;
constexpr mode_t kSocketMode = 0666;
// An app whose queue is full does not hold up who follows it for longer.
constexpr timeval kSendLimit{.tv_sec = 5, .tv_usec = 0};

Result<UniqueFd> listen_at(const std::filesystem::path& path) {
  sockaddr_un address{};
  address.sun_family = AF_UNIX;
  const std::string temporary = path.string() + "." + std::to_string(::getpid());
  if (temporary.size() >= sizeof address.sun_path) {
    return fail(ErrorCode::kInvalidArgument, "the path " + path.string() + " is too long");
  }
  std::ranges::copy(temporary, address.sun_path);
  UniqueFd fd(::socket(AF_UNIX, SOCK_SEQPACKET | SOCK_NONBLOCK | SOCK_CLOEXEC, 0));
  ::unlink(temporary.c_str());
  // Under its name only when it can be connected to: apps watch for it.
  if (!fd.valid() ||
      ::bind(fd.get(), reinterpret_cast<const sockaddr*>(&address), sizeof address) != 0 ||
      ::chmod(temporary.c_str(), kSocketMode) != 0 || ::listen(fd.get(), kBacklog) != 0 ||
      ::rename(temporary.c_str(), path.c_str()) != 0) {
    return fail_errno("could not listen on " + path.string());
  }
  return fd;
}

bool is_readable(int fd) {
  pollfd state{.fd = fd, .events = POLLIN, .revents = 0};
  return ::poll(&state, 1, 0) != 0;
}

}  // namespace

struct XrayApps::App {
  App(boost::asio::io_context& io, UniqueFd socket, UniqueFd process, pid_t peer, uid_t user)
      : connection(io, socket.release()), life(io, process.release()), pid(peer), uid(user) {}

  stream_descriptor connection;
  stream_descriptor life;  // a pidfd
  pid_t pid;
  uid_t uid;
};

Result<std::unique_ptr<XrayApps>> XrayApps::open(boost::asio::io_context& io,
                                                 const std::filesystem::path& path) {
  auto listener = listen_at(path);
  if (!listener) return listener.error();
  return std::unique_ptr<XrayApps>(new XrayApps(io, std::move(*listener), path));
}

XrayApps::XrayApps(boost::asio::io_context& io, UniqueFd listener, std::filesystem::path path)
    : io_(io), listener_(io, listener.release()), path_(std::move(path)) {
  boost::asio::co_spawn(io_, accept(), boost::asio::detached);
}

XrayApps::~XrayApps() {
  stop();
  ::unlink(path_.c_str());
}

void XrayApps::stop() {
  boost::system::error_code ignored;
  listener_.close(ignored);
  while (!apps_.empty()) remove(*apps_.begin()->second);
}

boost::asio::awaitable<void> XrayApps::accept() {
  for (;;) {
    const auto [error] = co_await listener_.async_wait(stream_descriptor::wait_read, kTuple);
    if (error) co_return;
    UniqueFd connection(::accept4(listener_.native_handle(), nullptr, nullptr, SOCK_CLOEXEC));
    if (connection.valid()) admit(std::move(connection));
  }
}

// The credentials are those at connect(), so the pid may be another's by now: of its own user's at
// worst, for then the user differs.
void XrayApps::admit(UniqueFd connection) {
  ucred peer{};
  socklen_t size = sizeof peer;
  const bool is_known =
      ::getsockopt(connection.get(), SOL_SOCKET, SO_PEERCRED, &peer, &size) == 0 && peer.pid > 0;
  UniqueFd process(is_known ? static_cast<int>(::syscall(SYS_pidfd_open, peer.pid, 0)) : -1);
  const auto of_uid = std::ranges::count_if(
      apps_, [&](const auto& entry) { return entry.second->uid == peer.uid; });
  const bool has_room = apps_.size() < kMaxApps &&
                        (peer.uid == 0 || static_cast<std::size_t>(of_uid) < kMaxAppsOfUid);
  if (!process.valid() || !has_room || effective_uid_of(peer.pid) != peer.uid) {
    ++refused_;
    closer_.close(std::move(connection));
    return;
  }
  ::setsockopt(connection.get(), SOL_SOCKET, SO_SNDTIMEO, &kSendLimit, sizeof kSendLimit);
  disconnect(peer.pid);  // one connection a process, the newest
  auto app =
      std::make_shared<App>(io_, std::move(connection), std::move(process), peer.pid, peer.uid);
  apps_.emplace(peer.pid, app);
  boost::asio::co_spawn(io_, watch(app, false), boost::asio::detached);
  boost::asio::co_spawn(io_, watch(app, true), boost::asio::detached);
}

// The connection alone does not tell: a child that was made without its parent's knowledge may hold
// it open.
boost::asio::awaitable<void> XrayApps::watch(std::shared_ptr<App> app, bool process) {
  if (process) {
    co_await app->life.async_wait(stream_descriptor::wait_read, kTuple);
  } else {
    co_await app->connection.async_wait(stream_descriptor::wait_error, kTuple);
  }
  remove(*app);
}

void XrayApps::remove(const App& app) {
  const auto found = apps_.find(app.pid);
  if (found == apps_.end() || found->second.get() != &app) return;
  const std::shared_ptr<App> gone = std::move(found->second);
  apps_.erase(found);
  boost::system::error_code ignored;
  gone->life.close(ignored);
  // Also for those who follow it, and for whoever else has it open.
  ::shutdown(gone->connection.native_handle(), SHUT_RDWR);
  closer_.close(UniqueFd(gone->connection.release()));
}

void XrayApps::disconnect(pid_t pid) {
  if (const auto found = apps_.find(pid); found != apps_.end()) remove(*found->second);
}

Result<int> XrayApps::connection_of(pid_t pid) const {
  const auto found = apps_.find(pid);
  if (found != apps_.end() && !is_readable(found->second->life.native_handle())) {
    return found->second->connection.native_handle();
  }
  return fail(ErrorCode::kNotFound, "pid " + std::to_string(pid) + " has not come to profd",
              "only apps that link libprofd_xray do, at " + path_.string() +
                  " or where PROFD_XRAY_SOCKET says: docs/xray.md");
}

}  // namespace profd
