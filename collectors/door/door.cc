#include "collectors/door/door.h"

#include <poll.h>
#include <sys/epoll.h>
#include <sys/socket.h>
#include <time.h>

#include <algorithm>
#include <array>
#include <cstdint>
#include <map>
#include <optional>
#include <span>
#include <utility>
#include <vector>

#include "collectors/door/one_way.h"
#include "collectors/door/packets.h"
#include "collectors/door/page.h"
#include "collectors/host/clock.h"
#include "collectors/host/peer.h"
#include "formats/base/unique_fd.h"

namespace profd::door {
namespace {

// Two of each client, and some of its own.
constexpr std::uint64_t kOpenFiles = 2 * kMaxClients + 16;
// A client gets so long to read the rest of an answer when the daemon has closed the connection.
constexpr std::int64_t kLastReadLimitNanoseconds = 10'000'000'000;
// So many clients at a time may read the rest of an answer. The daemon counts them no more, so else
// one user could take the room of all by reading nothing.
constexpr std::size_t kMaxEnding = 96;
static_assert(kMaxAdmitted + kMaxEnding < kMaxClients);
constexpr int kSweepIntervalMilliseconds = 1000;
constexpr int kAcceptPauseMilliseconds = 100;
constexpr int kEvents = 64;

// What an epoll event is about: one of these, or kFirstClient + 2 * (client's number) + side.
enum : std::uint64_t { kListener = 0, kDaemon = 1, kFirstClient = 2 };

// A client's socket or the door's end of the pair, as epoll watches it.
class Side {
 public:
  Side(UniqueFd socket, std::uint64_t token) : socket_(std::move(socket)), token_(token) {}

  [[nodiscard]] int fd() const { return socket_.get(); }
  [[nodiscard]] bool is_gone() const { return is_gone_; }

  void watch(int epoll, bool reads, bool writes) {
    const std::uint32_t wanted = (reads ? EPOLLIN : 0U) | (writes ? EPOLLOUT : 0U);
    if (is_gone_ || (is_watched_ && wanted == events_)) return;
    epoll_event event{.events = wanted, .data = {.u64 = token_}};
    ::epoll_ctl(epoll, is_watched_ ? EPOLL_CTL_MOD : EPOLL_CTL_ADD, fd(), &event);
    is_watched_ = true;
    events_ = wanted;
  }

  // The peer has closed its socket. epoll would report that again and again.
  void set_gone(int epoll) {
    ::epoll_ctl(epoll, EPOLL_CTL_DEL, fd(), nullptr);
    is_gone_ = true;
  }

 private:
  UniqueFd socket_;
  std::uint64_t token_;
  std::uint32_t events_ = 0;
  bool is_watched_ = false;
  bool is_gone_ = false;
};

class Connection {
 public:
  Connection(UniqueFd client, const Peer& peer, UniqueFd daemon, std::uint64_t token)
      : peer_(peer),
        client_(std::move(client), token),
        daemon_(std::move(daemon), token + 1),
        to_daemon_(client_.fd(), daemon_.fd()),
        to_client_(daemon_.fd(), client_.fd()) {}

  // False when the connection has ended.
  bool handle(int epoll, bool is_client, std::uint32_t events) {
    Side& side = is_client ? client_ : daemon_;
    if ((events & (EPOLLHUP | EPOLLERR)) != 0 && !side.is_gone()) {
      side.set_gone(epoll);
      if (!is_client) last_read_ns_ = now_ns(CLOCK_MONOTONIC) + kLastReadLimitNanoseconds;
    }
    return run(epoll);
  }

  bool run(int epoll) {
    to_daemon_.run();
    to_client_.run();
    if (to_client_.has_ended() || (client_.is_gone() && to_daemon_.has_ended())) return false;
    if (to_daemon_.has_ended() && !std::exchange(is_half_closed_, true)) {
      ::shutdown(daemon_.fd(), SHUT_WR);
    }
    // Where one side is gone, only the other one wakes the door for the rest of its bytes.
    client_.watch(epoll, to_daemon_.wants_to_read(),
                  to_client_.wants_to_write() || daemon_.is_gone());
    daemon_.watch(epoll, to_client_.wants_to_read(),
                  to_daemon_.wants_to_write() || (client_.is_gone() && !to_daemon_.has_ended()));
    return true;
  }

  [[nodiscard]] bool is_over(std::int64_t now) const {
    return last_read_ns_ != 0 && now > last_read_ns_;
  }
  [[nodiscard]] bool is_ending() const { return last_read_ns_ != 0; }
  [[nodiscard]] const Peer& peer() const { return peer_; }

 private:
  Peer peer_;
  Side client_;
  Side daemon_;
  OneWay to_daemon_;
  OneWay to_client_;
  std::int64_t last_read_ns_ = 0;  // 0: the daemon has not closed the connection
  bool is_half_closed_ = false;
};

class Door {
 public:
  Door(int daemon, UniqueFd listener, const StartPacket& start, DoorPage& page)
      : daemon_(daemon),
        listener_(std::move(listener)),
        group_(start.has_group != 0 ? std::optional<gid_t>(start.group) : std::nullopt),
        page_(page),
        epoll_(::epoll_create1(EPOLL_CLOEXEC)) {}

  void run() {
    epoll_event daemon{.events = EPOLLIN, .data = {.u64 = kDaemon}};
    if (::epoll_ctl(epoll_.get(), EPOLL_CTL_ADD, daemon_, &daemon) != 0) return;
    while (!has_ended_ && !(is_finishing_ && connections_.empty())) {
      watch_listener();
      std::array<epoll_event, kEvents> events;
      const int count = ::epoll_wait(epoll_.get(), events.data(), kEvents, timeout_ms());
      is_starved_ = false;
      for (int i = 0; i < count && !has_ended_; ++i) {
        page_.set_busy();
        handle(events[static_cast<std::size_t>(i)]);
      }
      page_.set_busy();
      sweep();
      page_.set_idle();
    }
  }

 private:
  [[nodiscard]] int timeout_ms() const {
    if (is_starved_) return kAcceptPauseMilliseconds;
    return !ending_.empty() ? kSweepIntervalMilliseconds : -1;
  }

  void watch_listener() {
    const bool wanted = accepts_ && !is_starved_ && connections_.size() < kMaxClients;
    if (wanted == is_listener_watched_) return;
    epoll_event event{.events = EPOLLIN, .data = {.u64 = kListener}};
    ::epoll_ctl(epoll_.get(), wanted ? EPOLL_CTL_ADD : EPOLL_CTL_DEL, listener_.get(), &event);
    is_listener_watched_ = wanted;
  }

  void handle(const epoll_event& event) {
    if (event.data.u64 == kListener) return accept();
    if (event.data.u64 == kDaemon) return take_order(event.events);
    const std::uint64_t number = (event.data.u64 - kFirstClient) / 2;
    const auto found = connections_.find(number);
    if (found == connections_.end()) return;  // ended in this turn
    const bool was_ending = found->second.is_ending();
    const bool is_client = event.data.u64 % 2 == 0;
    const bool goes_on = found->second.handle(epoll_.get(), is_client, event.events);
    if (!was_ending && found->second.is_ending()) ending_.push_back(number);
    if (!goes_on) end(found);
    if (ending_.size() > kMaxEnding && !is_finishing_) end_one_early();
  }

  // The one of the user with most of them that began to end first.
  void end_one_early() {
    const auto uid_of = [this](std::uint64_t number) { return connections_.at(number).peer().uid; };
    std::map<std::uint32_t, std::size_t> count_of;
    for (const std::uint64_t number : ending_) ++count_of[uid_of(number)];
    const auto most =
        std::ranges::max_element(count_of, {}, [](const auto& counted) { return counted.second; });
    end_unread(connections_.find(*std::ranges::find(ending_, most->first, uid_of)));
  }

  // A daemon that waits for the last answers is sent nothing more.
  void end_unread(std::map<std::uint64_t, Connection>::iterator connection) {
    if (!is_finishing_) (void)announce(connection->second.peer(), {});
    end(connection);
  }

  void end(std::map<std::uint64_t, Connection>::iterator connection) {
    if (connection->second.is_ending()) std::erase(ending_, connection->first);
    connections_.erase(connection);  // closes the client's socket, which may take long
  }

  // To accept no more clients; or, where the daemon sends no more, to end with the last of them.
  void take_order(std::uint32_t events) {
    StartPacket stop;
    const auto received = sandbox::receive_packet(daemon_, sandbox::buffer_of(stop));
    accepts_ = false;
    if (received && received->bytes != 0) return;
    has_ended_ = !received || (events & EPOLLHUP) != 0;
    is_finishing_ = true;
    ::epoll_ctl(epoll_.get(), EPOLL_CTL_DEL, daemon_, nullptr);
  }

  void accept() {
    if (connections_.size() >= kMaxClients) return;
    UniqueFd client(::accept4(listener_.get(), nullptr, nullptr, SOCK_CLOEXEC));
    if (!client.valid()) {
      is_starved_ = errno != EAGAIN && errno != ECONNABORTED;
      return;
    }
    const auto peer = peer_of(client.get(), group_);
    int ends[2];
    if (!peer || ::socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, ends) != 0) return;
    UniqueFd ours(ends[0]);
    const UniqueFd theirs(ends[1]);
    const int end_of_daemon = theirs.get();
    if (!announce(*peer, {&end_of_daemon, 1})) return;
    const std::uint64_t token = kFirstClient + 2 * next_;
    const auto added =
        connections_.try_emplace(next_, std::move(client), *peer, std::move(ours), token);
    ++next_;
    if (!added.first->second.run(epoll_.get())) end(added.first);
  }

  // Waits while the daemon's queue is full: then the daemon is late, and not this process.
  bool announce(const Peer& peer, std::span<const int> sockets) {
    page_.set_idle();
    pollfd room{.fd = daemon_, .events = POLLOUT, .revents = 0};
    ::poll(&room, 1, -1);
    page_.set_busy();
    const ClientPacket packet{.uid = peer.uid,
                              .gid = peer.gid,
                              .pid = peer.pid,
                              .is_in_group = peer.is_in_group ? 1U : 0U};
    return sandbox::send_packet(daemon_, sandbox::bytes_of(packet), sockets);
  }

  // Ends the connections whose clients do not read the rest of their answers.
  void sweep() {
    const std::int64_t now = now_ns(CLOCK_MONOTONIC);
    if (ending_.empty() || now < next_sweep_ns_) return;
    next_sweep_ns_ = now + std::int64_t{kSweepIntervalMilliseconds} * 1'000'000;
    for (auto at = connections_.begin(); at != connections_.end();) {
      const auto connection = at++;
      if (!connection->second.is_over(now)) continue;
      page_.set_busy();
      end_unread(connection);
    }
  }

  int daemon_;
  UniqueFd listener_;
  std::optional<gid_t> group_;
  DoorPage& page_;
  UniqueFd epoll_;
  std::map<std::uint64_t, Connection> connections_;
  std::uint64_t next_ = 0;             // connection's number
  std::vector<std::uint64_t> ending_;  // that the daemon has closed, the first one first
  std::int64_t next_sweep_ns_ = 0;
  bool accepts_ = true;
  bool is_listener_watched_ = false;
  bool is_starved_ = false;  // no descriptor or memory was free for a connection
  bool is_finishing_ = false;
  bool has_ended_ = false;
};

void serve_door(int daemon) {
  StartPacket start;
  auto received = sandbox::receive_packet(daemon, sandbox::buffer_of(start));
  if (!received || received->bytes != sizeof start || received->descriptors.size() != 2) return;
  DoorPage* const page = map_page(received->descriptors[1].get());
  if (page == nullptr) return;
  Door(daemon, std::move(received->descriptors[0]), start, *page).run();
}

}  // namespace

const sandbox::ChildKind kDoorChild{
    .name = "door",
    .process_name = "profd-door",
    .run = &serve_door,
    .rules = {.open_files = kOpenFiles, .serves_connections = true}};

}  // namespace profd::door
