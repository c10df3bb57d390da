#include "collectors/door/app_door.h"

#include <poll.h>
#include <sys/epoll.h>
#include <sys/socket.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <cstdint>
#include <deque>
#include <map>
#include <optional>
#include <span>
#include <utility>

#include "collectors/door/app_packets.h"
#include "collectors/door/closer.h"
#include "collectors/door/page.h"
#include "collectors/host/peer.h"
#include "formats/base/unique_fd.h"

namespace profd::door {
namespace {

constexpr std::uint64_t kAppDoorFiles = kMaxAppConnections + kOwnDescriptors;
constexpr int kStarvedPauseMilliseconds = 100;
constexpr int kAppEvents = 64;

// What an epoll event is about: one of these, or kFirstApp + the app's number.
enum : std::uint64_t { kAppListener = 0, kAppDaemon = 1, kCloserLink = 2, kFirstApp = 3 };

// Gives connections to the closer, one at a time: descriptors on their way count for all sandboxed
// children, whose limits are low.
class ClosingQueue {
 public:
  explicit ClosingQueue(std::size_t max_kept) : max_kept_(max_kept) {}

  [[nodiscard]] std::size_t size() const { return waiting_.size(); }
  [[nodiscard]] int link() const { return link_.get(); }

  void add(UniqueFd connection) { waiting_.push_back(std::move(connection)); }

  // A closer that ended has closed what it had.
  void set_link(UniqueFd link) {
    link_ = std::move(link);
    kept_ = 0;
    is_asked_ = false;
  }

  // To be called when the link, or the one before it, was readable.
  void take_answer() {
    pollfd answer{.fd = link(), .events = POLLIN, .revents = 0};
    if (::poll(&answer, 1, 0) <= 0) return;
    ClosingPacket packet;
    const auto received = sandbox::receive_packet(link(), sandbox::buffer_of(packet));
    if (!received || received->bytes != sizeof packet) return set_link(UniqueFd());
    is_asked_ = false;
  }

  // Sends what the closer can take now.
  void run() {
    while (link_.valid() && !is_asked_) {
      if (kept_ == max_kept_ || (waiting_.empty() && kept_ != 0)) {
        if (!send(ClosingStep::kClose, {})) return set_link(UniqueFd());
        kept_ = 0;
      }
      if (waiting_.empty()) return;
      const int connection = waiting_.front().get();
      if (!send(ClosingStep::kKeep, {&connection, 1})) return set_link(UniqueFd());
      waiting_.pop_front();  // not its last close: the closer has it, or its queue does
      ++kept_;
      is_asked_ = true;
    }
  }

 private:
  bool send(ClosingStep step, std::span<const int> descriptors) {
    const ClosingPacket packet{.step = step};
    return sandbox::send_packet(link(), sandbox::bytes_of(packet), descriptors);
  }

  std::size_t max_kept_;
  UniqueFd link_;  // not valid: there is no closer now
  std::deque<UniqueFd> waiting_;
  std::size_t kept_ = 0;   // by the closer, and not to be closed yet
  bool is_asked_ = false;  // the closer has not confirmed the last connection
};

class AppDoor {
 public:
  AppDoor(int daemon, UniqueFd listener, std::size_t connections, DoorPage& page)
      : daemon_(daemon),
        listener_(std::move(listener)),
        max_connections_(std::min(connections, kMaxAppConnections)),
        page_(page),
        epoll_(::epoll_create1(EPOLL_CLOEXEC)),
        closing_(std::min(connections, kMaxKept)) {}

  void run() {
    if (!control(EPOLL_CTL_ADD, daemon_, EPOLLIN, kAppDaemon)) return;
    while (!has_ended_) {
      watch_daemon();
      watch_listener();
      std::array<epoll_event, kAppEvents> events;
      const int count = ::epoll_wait(epoll_.get(), events.data(), kAppEvents,
                                     is_starved_ ? kStarvedPauseMilliseconds : -1);
      page_.set_busy();
      is_starved_ = false;
      for (int i = 0; i < count && !has_ended_; ++i) handle(events[static_cast<std::size_t>(i)]);
      closing_.run();
      report_changes();
      page_.set_idle();
    }
  }

 private:
  bool control(int operation, int fd, std::uint32_t wanted, std::uint64_t token) {
    epoll_event event{.events = wanted, .data = {.u64 = token}};
    return ::epoll_ctl(epoll_.get(), operation, fd, &event) == 0;
  }

  void watch_daemon() {
    const bool writes = !changes_.empty();
    if (writes == is_daemon_full_) return;
    control(EPOLL_CTL_MOD, daemon_, EPOLLIN | (writes ? EPOLLOUT : 0U), kAppDaemon);
    is_daemon_full_ = writes;
  }

  // While the daemon is late, nobody is accepted.
  void watch_listener() {
    const bool wanted = !is_starved_ && changes_.empty() && has_room();
    if (wanted == is_listener_watched_) return;
    control(wanted ? EPOLL_CTL_ADD : EPOLL_CTL_DEL, listener_.get(), EPOLLIN, kAppListener);
    is_listener_watched_ = wanted;
  }

  [[nodiscard]] bool has_room() const { return apps_.size() + closing_.size() < max_connections_; }

  void handle(const epoll_event& event) {
    const std::uint64_t token = event.data.u64;
    if (token == kAppListener) return accept();
    if (token == kAppDaemon && (event.events & (EPOLLIN | EPOLLHUP)) != 0) return take_order();
    if (token == kCloserLink) return closing_.take_answer();
    if (token < kFirstApp) return;
    // Only its end is reported of an app.
    if (!remove(token - kFirstApp)) return;
    changes_.push_back({.change = AppChange::kDisconnected, .app = token - kFirstApp});
  }

  void accept() {
    if (!has_room()) return;
    UniqueFd connection(::accept4(listener_.get(), nullptr, nullptr, SOCK_CLOEXEC));
    if (!connection.valid()) {
      is_starved_ = errno != EAGAIN && errno != ECONNABORTED;
      return;
    }
    const auto peer = peer_of(connection.get(), std::nullopt);
    const std::uint64_t app = next_++;
    pollfd end{.fd = connection.get(), .events = 0, .revents = 0};
    if (!peer || ::poll(&end, 1, 0) != 0 ||
        !control(EPOLL_CTL_ADD, connection.get(), 0, kFirstApp + app)) {
      return closing_.add(std::move(connection));
    }
    apps_.emplace(app, std::move(connection));
    changes_.push_back({.change = AppChange::kConnected,
                        .uid = peer->uid,
                        .gid = peer->gid,
                        .pid = peer->pid,
                        .app = app});
  }

  // False: it is gone already.
  bool remove(std::uint64_t app) {
    auto removed = apps_.extract(app);
    if (removed.empty()) return false;
    control(EPOLL_CTL_DEL, removed.mapped().get(), 0, 0);
    closing_.add(std::move(removed.mapped()));
    return true;
  }

  void take_order() {
    AppOrderPacket packet;
    auto received = sandbox::receive_packet(daemon_, sandbox::buffer_of(packet));
    has_ended_ = !received || received->bytes != sizeof packet;
    if (has_ended_) return;
    const auto app = apps_.find(packet.app);
    const bool is_there = app != apps_.end();
    const bool has_descriptor = received->descriptors.size() == 1;
    if (packet.order == AppOrder::kCloser && has_descriptor) {
      closing_.set_link(std::move(received->descriptors[0]));
      control(EPOLL_CTL_ADD, closing_.link(), EPOLLIN, kCloserLink);
    } else if (packet.order == AppOrder::kPass && has_descriptor) {
      // A follower that gets no connection sees the end of the pair.
      if (is_there) pass(app->second.get(), received->descriptors[0].get());
    } else if (packet.order == AppOrder::kDisconnect && !has_descriptor) {
      // Disconnects also the follower and all other processes that have the socket open.
      if (is_there) ::shutdown(app->second.get(), SHUT_RDWR);
      remove(packet.app);
    } else {
      has_ended_ = true;
    }
  }

  static void pass(int connection, int follower) {
    (void)sandbox::send_packet(follower, sandbox::bytes_of(PassedPacket{}), {&connection, 1});
  }

  void report_changes() {
    while (!changes_.empty()) {
      const auto bytes = sandbox::bytes_of(changes_.front());
      if (::send(daemon_, bytes.data(), bytes.size(), MSG_DONTWAIT | MSG_NOSIGNAL) < 0) {
        has_ended_ = has_ended_ || (errno != EAGAIN && errno != EINTR);
        return;
      }
      changes_.pop_front();
    }
  }

  int daemon_;
  UniqueFd listener_;
  std::size_t max_connections_;
  DoorPage& page_;
  UniqueFd epoll_;
  std::map<std::uint64_t, UniqueFd> apps_;
  std::uint64_t next_ = 0;         // app's number
  std::deque<AppPacket> changes_;  // that the daemon has no room for
  ClosingQueue closing_;
  bool is_listener_watched_ = false;
  bool is_daemon_full_ = false;  // and watched
  bool is_starved_ = false;      // no descriptor or memory was free for a connection
  bool has_ended_ = false;
};

void serve_app_door(int daemon) {
  AppOrderPacket start;
  auto received = sandbox::receive_packet(daemon, sandbox::buffer_of(start));
  if (!received || received->bytes != sizeof start || start.order != AppOrder::kStart ||
      received->descriptors.size() != 2) {
    return;
  }
  DoorPage* const page = map_page(received->descriptors[1].get());
  if (page == nullptr) return;
  AppDoor door(daemon, std::move(received->descriptors[0]), start.connections, *page);
  door.run();
  ::_exit(0);  // the end of a process waits for no lingering socket
}

}  // namespace

const sandbox::ChildKind kAppDoorChild{
    .name = "app-door",
    .process_name = "profd-app-door",
    .run = &serve_app_door,
    .rules = {.open_files = kAppDoorFiles, .serves_connections = true}};

}  // namespace profd::door
