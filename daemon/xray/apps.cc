#include "daemon/xray/apps.h"

#include <poll.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <sys/time.h>
#include <unistd.h>

#include <algorithm>
#include <optional>
#include <string>
#include <utility>

#include "daemon/base/coroutines.h"
#include "daemon/service/caller.h"
#include "daemon/xray/target.h"

namespace profd {
namespace {

using boost::asio::posix::stream_descriptor;
// An app whose queue is full blocks a follower's send() no longer.
constexpr timeval kSendLimit{.tv_sec = 5, .tv_usec = 0};

bool is_readable(int fd) {
  pollfd state{.fd = fd, .events = POLLIN, .revents = 0};
  return ::poll(&state, 1, 0) != 0;
}

}  // namespace

struct XrayApps::App {
  App(boost::asio::io_context& io, UniqueFd socket, UniqueFd pidfd, const Caller& peer)
      : connection(io, socket.release()),
        process(io, pidfd.release()),
        pid(peer.pid),
        uid(peer.uid) {}

  stream_descriptor connection;
  stream_descriptor process;  // a pidfd, readable when the process has ended
  pid_t pid;
  uid_t uid;
};

Result<std::unique_ptr<XrayApps>> XrayApps::open(boost::asio::io_context& io,
                                                 const std::filesystem::path& path) {
  auto listener = UnixListener::open(path, SOCK_SEQPACKET);
  if (!listener) return listener.error();
  return std::unique_ptr<XrayApps>(new XrayApps(io, std::move(*listener), path));
}

XrayApps::XrayApps(boost::asio::io_context& io, UnixListener listener, std::filesystem::path path)
    : io_(io),
      listener_(std::move(listener)),
      socket_(io, listener_.take_fd().release()),
      path_(std::move(path)) {
  spawn(io_, accept());
}

XrayApps::~XrayApps() { stop(); }

void XrayApps::stop() {
  boost::system::error_code ignored;
  socket_.close(ignored);
  while (!apps_.empty()) remove(*apps_.begin()->second);
}

boost::asio::awaitable<void> XrayApps::accept() {
  for (;;) {
    const bool readable = co_await wait_readable(socket_);
    if (!readable) co_return;
    UniqueFd connection(::accept4(socket_.native_handle(), nullptr, nullptr, SOCK_CLOEXEC));
    if (connection.valid()) admit(std::move(connection));
  }
}

// The kernel recorded the credentials at connect(). Since then the pid may have become that of
// another process, but only of one with the same uid, which is checked.
void XrayApps::admit(UniqueFd connection) {
  const Result<Caller> peer = identify_caller(connection.get(), std::nullopt);
  UniqueFd process(peer && peer->pid > 0 ? static_cast<int>(::syscall(SYS_pidfd_open, peer->pid, 0))
                                         : -1);
  const auto has_room = [&] {
    const auto of_uid = std::ranges::count_if(
        apps_, [&](const auto& entry) { return entry.second->uid == peer->uid; });
    return apps_.size() < kMaxApps &&
           (peer->uid == 0 || static_cast<std::size_t>(of_uid) < kMaxAppsOfUid);
  };
  if (!process.valid() || !has_room() || effective_uid_of(peer->pid) != peer->uid) {
    ++refused_;
    closer_.close(std::move(connection));
    return;
  }
  ::setsockopt(connection.get(), SOL_SOCKET, SO_SNDTIMEO, &kSendLimit, sizeof kSendLimit);
  disconnect(peer->pid);  // a process has one connection, the newest
  auto app = std::make_shared<App>(io_, std::move(connection), std::move(process), *peer);
  apps_.emplace(peer->pid, app);
  spawn(io_, watch_process(app));
  spawn(io_, watch_connection(app));
}

// The connection alone does not show that the process has ended: a child may hold it open, forked
// without the library's handlers.
boost::asio::awaitable<void> XrayApps::watch_process(std::shared_ptr<App> app) {
  (void)co_await wait_readable(app->process);
  remove(*app);
}

boost::asio::awaitable<void> XrayApps::watch_connection(std::shared_ptr<App> app) {
  co_await wait_for_error(app->connection);
  remove(*app);
}

void XrayApps::remove(const App& app) {
  const auto found = apps_.find(app.pid);
  if (found == apps_.end() || found->second.get() != &app) return;
  const std::shared_ptr<App> removed = std::move(found->second);
  apps_.erase(found);
  boost::system::error_code ignored;
  removed->process.close(ignored);
  // Disconnects also the follower and all other processes that have the socket open.
  ::shutdown(removed->connection.native_handle(), SHUT_RDWR);
  closer_.close(UniqueFd(removed->connection.release()));
}

void XrayApps::disconnect(pid_t pid) {
  if (const auto found = apps_.find(pid); found != apps_.end()) remove(*found->second);
}

Result<int> XrayApps::connection_of(pid_t pid) const {
  const auto found = apps_.find(pid);
  if (found != apps_.end() && !is_readable(found->second->process.native_handle())) {
    return found->second->connection.native_handle();
  }
  return fail(ErrorCode::kNotFound, "pid " + std::to_string(pid) + " has not connected to profd",
              "apps that link libprofd_xray connect, to " + path_.string() +
                  " or to the path in PROFD_XRAY_SOCKET: docs/xray.md");
}

}  // namespace profd
