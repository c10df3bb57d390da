#include "daemon/xray/apps.h"

#include <poll.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <optional>
#include <string>
#include <utility>

#include <boost/asio/posix/stream_descriptor.hpp>

#include "daemon/base/coroutines.h"
#include "daemon/xray/target.h"

namespace profd {
namespace {

using boost::asio::posix::stream_descriptor;

bool is_readable(int fd) {
  pollfd state{.fd = fd, .events = POLLIN, .revents = 0};
  return ::poll(&state, 1, 0) != 0;
}

}  // namespace

struct XrayApps::App {
  App(boost::asio::io_context& io, UniqueFd pidfd, std::uint64_t of_door, pid_t of_process,
      uid_t of_user)
      : process(io, pidfd.release()), number(of_door), pid(of_process), user(of_user) {}

  stream_descriptor process;  // a pidfd, readable when the process has ended
  std::uint64_t number;       // the door's
  pid_t pid;
  uid_t user;
};

Result<std::unique_ptr<XrayApps>> XrayApps::open(boost::asio::io_context& io,
                                                 const std::filesystem::path& path,
                                                 UidOwners owners, UserRefusals* refusals) {
  auto listener = UnixListener::open(path, SOCK_SEQPACKET);
  if (!listener) return listener.error();
  return std::unique_ptr<XrayApps>(
      new XrayApps(io, std::move(*listener), path, std::move(owners), refusals));
}

XrayApps::XrayApps(boost::asio::io_context& io, UnixListener listener, std::filesystem::path path,
                   UidOwners owners, UserRefusals* refusals)
    : io_(io),
      listener_(std::move(listener)),
      path_(std::move(path)),
      owners_(std::move(owners)),
      refusals_(refusals),
      door_(io, listener_.take_fd(),
            {.changed = [this](const door::AppPacket& packet) { handle(packet); },
             .ended = [this] { forget_all(); }}) {}

XrayApps::~XrayApps() { stop(); }

void XrayApps::stop() { door_.close(); }

void XrayApps::handle(const door::AppPacket& packet) {
  if (packet.change == door::AppChange::kConnected) return admit(packet);
  forget(packet.app);
}

bool XrayApps::has_room(uid_t user, const Counts& connected) {
  if (connected.all >= kMaxApps) return false;
  return user == 0 || (connected.of_users < kMaxAppsOfUsers && connected.of_user < kMaxAppsOfUid);
}

XrayApps::Counts XrayApps::counts_for(uid_t user) const {
  Counts counts{.all = apps_.size()};
  for (const auto& [number, app] : apps_) {
    if (app->user != 0) ++counts.of_users;
    if (app->user == user) ++counts.of_user;
  }
  return counts;
}

// The kernel recorded the credentials at connect(). Since then the pid may have become that of
// another process, but only of one with the same uid, which is checked.
void XrayApps::admit(const door::AppPacket& packet) {
  UniqueFd process(packet.pid > 0 ? static_cast<int>(::syscall(SYS_pidfd_open, packet.pid, 0))
                                  : -1);
  const uid_t user = owners_.owner_of(packet.uid);
  if (!process.valid() || !has_room(user, counts_for(user)) ||
      effective_uid_of(packet.pid) != packet.uid) {
    ++refused_;
    if (refusals_ != nullptr) refusals_->add(packet.uid, "xray.apps_refused");
    return door_.disconnect(packet.app);
  }
  disconnect(packet.pid);  // a process has one connection, the newest
  auto app = std::make_shared<App>(io_, std::move(process), packet.app, packet.pid, user);
  apps_.emplace(packet.app, app);
  numbers_.emplace(packet.pid, packet.app);
  spawn(io_, watch_process(app));
}

// The connection alone does not show that the process has ended: a child may hold it open, forked
// without the library's handlers.
boost::asio::awaitable<void> XrayApps::watch_process(std::shared_ptr<App> app) {
  const bool has_ended = co_await wait_readable(app->process);
  if (!has_ended) co_return;  // forgotten
  door_.disconnect(app->number);
  forget(app->number);
}

void XrayApps::forget(std::uint64_t app) {
  const auto forgotten = apps_.extract(app);
  if (forgotten.empty()) return;
  numbers_.erase(forgotten.mapped()->pid);
  boost::system::error_code ignored;
  forgotten.mapped()->process.close(ignored);
}

void XrayApps::forget_all() {
  while (!apps_.empty()) forget(apps_.begin()->first);
}

void XrayApps::disconnect(pid_t pid) {
  const auto found = numbers_.find(pid);
  if (found == numbers_.end()) return;
  door_.disconnect(found->second);
  forget(found->second);
}

Result<void> XrayApps::check_connected(pid_t pid) const {
  const auto found = numbers_.find(pid);
  if (found != numbers_.end() && !is_readable(apps_.at(found->second)->process.native_handle())) {
    return {};
  }
  return fail(ErrorCode::kNotFound, "pid " + std::to_string(pid) + " has not connected to profd",
              "apps that link libprofd_xray connect, to " + path_.string() +
                  " or to the path in PROFD_XRAY_SOCKET: docs/xray.md");
}

void XrayApps::pass_connection(pid_t pid, UniqueFd follower) {
  const auto found = numbers_.find(pid);
  if (found != numbers_.end()) door_.pass(found->second, std::move(follower));
}

}  // namespace profd
