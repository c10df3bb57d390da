#include "daemon/xray/app_door.h"

#include <fcntl.h>
#include <signal.h>
#include <sys/socket.h>
#include <sys/wait.h>

#include <algorithm>
#include <deque>
#include <utility>

#include <boost/asio/posix/stream_descriptor.hpp>

#include "daemon/base/coroutines.h"
#include "daemon/base/log.h"

namespace profd {
namespace {

using boost::asio::posix::stream_descriptor;
using std::chrono::steady_clock;
using std::chrono_literals::operator""ms;
using std::chrono_literals::operator""s;

// Between two looks at the processes: with apps and for some time after the last one, and then.
constexpr auto kCheckInterval = 1000ms;
constexpr auto kIdleInterval = 4000ms;
constexpr auto kRecent = 5s;

}  // namespace

struct AppDoor::Door {
  struct Order {
    door::AppOrderPacket packet;
    UniqueFd descriptor;
  };

  Door(boost::asio::io_context& io, door::AppDoorChild started)
      : child(std::move(started)), link(io, ::fcntl(child.descriptor(), F_DUPFD_CLOEXEC, 0)) {}

  door::AppDoorChild child;
  stream_descriptor link;
  std::deque<Order> orders;  // that the door has no room for now
};

AppDoor::AppDoor(boost::asio::io_context& io, UniqueFd listener, Events events)
    : io_(io),
      listener_(std::move(listener)),
      events_(std::move(events)),
      timer_(io),
      pause_(io),
      connecting_(io, ::fcntl(listener_.get(), F_DUPFD_CLOEXEC, 0)) {
  spawn(io_, watch());
  spawn(io_, watch_connecting());
}

// The door has the listening socket open too. So this is not its last close, which would close what
// waiting apps sent.
void AppDoor::close() {
  is_stopped_ = true;
  timer_.cancel();
  pause_.cancel();
  boost::system::error_code ignored;
  if (connecting_.is_open()) connecting_.cancel(ignored);
  if (door_) {
    connecting_.close(ignored);
    listener_.reset();
  }
  end_door();
}

void AppDoor::disconnect(std::uint64_t app) {
  connected_.erase(app);
  order({.order = door::AppOrder::kDisconnect, .app = app});
}

void AppDoor::pass(std::uint64_t app, UniqueFd follower) {
  order({.order = door::AppOrder::kPass, .app = app}, std::move(follower));
}

void AppDoor::order(const door::AppOrderPacket& packet, UniqueFd descriptor) {
  if (!door_) return;
  const bool is_idle = door_->orders.empty();
  if (is_idle && door_->child.send(packet, descriptor.get())) return;
  door_->orders.push_back({.packet = packet, .descriptor = std::move(descriptor)});
  if (is_idle) spawn(io_, send_orders(door_));
}

boost::asio::awaitable<void> AppDoor::send_orders(std::shared_ptr<Door> door) {
  while (!door->orders.empty()) {
    const bool is_writable = co_await wait_writable(door->link);
    if (!is_writable) co_return;
    const Door::Order& first = door->orders.front();
    if (door->child.send(first.packet, first.descriptor.get())) door->orders.pop_front();
  }
}

bool AppDoor::may_start() {
  if (stuck_.size() < kMaxStuck) return true;
  if (!std::exchange(was_refused_, true)) {
    log::error("the socket of the apps is not served: {} processes hang", stuck_.size());
  }
  return false;
}

boost::asio::awaitable<void> AppDoor::start_missing() {
  if ((door_ && closer_) || !may_start()) co_return;
  Result<void> started;
  if (!door_) {
    started = co_await start_door();
  }
  if (started && door_ && !closer_) {
    started = co_await start_closer();
  }
  if (!started && !was_refused_) {
    log::error("could not start the door of the apps: {}", started.error().message);
  }
  was_refused_ = !started;
}

boost::asio::awaitable<Result<void>> AppDoor::start_door() {
  auto start = [listener = listener_.get()] { return door::AppDoorChild::start(listener); };
  auto operation = starter_.run(std::move(start));
  auto child = co_await std::move(operation);
  if (!child) co_return child.error();
  if (is_stopped_) {
    kill(child->process());
    co_return Result<void>();
  }
  door_ = std::make_shared<Door>(io_, std::move(*child));
  spawn(io_, receive(door_));
  co_return Result<void>();
}

// Its end of the pair is closed here before the door gets the other one: the daemon never has an
// end over which a connection travels.
boost::asio::awaitable<Result<void>> AppDoor::start_closer() {
  int ends[2];
  if (::socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, ends) != 0) {
    co_return fail_errno("could not make a socket pair");
  }
  UniqueFd for_door(ends[0]);
  UniqueFd for_closer(ends[1]);
  const std::shared_ptr<Door> door = door_;
  auto start = [socket = for_closer.get(), ended = std::exchange(ended_closers_, {})]() mutable {
    ended.clear();
    return door::CloserChild::start(socket);
  };
  auto operation = starter_.run(std::move(start));
  auto child = co_await std::move(operation);
  if (!child) co_return child.error();
  for_closer.reset();
  if (door != door_) {  // which has ended meanwhile
    kill(child->process());
    co_return Result<void>();
  }
  closer_.emplace(std::move(*child));
  order({.order = door::AppOrder::kCloser}, std::move(for_door));
  co_return Result<void>();
}

void AppDoor::kill(pid_t process) {
  ::kill(process, SIGKILL);  // not reaped yet, so the pid is still its own
  stuck_.push_back(process);
  reap();
}

void AppDoor::reap() {
  std::erase_if(stuck_, [](pid_t process) { return ::waitpid(process, nullptr, WNOHANG) != 0; });
  counts_.stuck = stuck_.size();
}

void AppDoor::end_door() {
  end_closer();
  const std::shared_ptr<Door> ended = std::exchange(door_, nullptr);
  if (!ended) return;
  kill(ended->child.process());
  boost::system::error_code ignored;
  ended->link.close(ignored);
  connected_.clear();
  events_.ended();
}

void AppDoor::end_closer() {
  if (!closer_) return;
  const pid_t process = closer_->process();
  ended_closers_.push_back(std::move(*closer_));
  closer_.reset();
  kill(process);
}

void AppDoor::replace_door(const Error& why) {
  log::warn("the door of the apps is replaced: {}", why.message);
  ++counts_.doors_replaced;
  end_door();
}

void AppDoor::replace_closer(const char* why) {
  log::warn("the closer of the apps is replaced: {}", why);
  ++counts_.closers_replaced;
  end_closer();
}

bool AppDoor::has_closer_died() {
  siginfo_t ended{};
  return ::waitid(P_PID, static_cast<id_t>(closer_->process()), &ended,
                  WEXITED | WNOHANG | WNOWAIT) == 0 &&
         ended.si_pid != 0;
}

boost::asio::awaitable<void> AppDoor::check() {
  if (door_ && door_->child.stands_still(kStandstill)) {
    replace_door(fail(ErrorCode::kTimeout, "it stands still"));
  }
  if (closer_ && closer_->stands_still(kStandstill)) replace_closer("it stands still");
  if (closer_ && has_closer_died()) replace_closer("it died");
  if (!stuck_.empty()) reap();
  co_await start_missing();
}

boost::asio::awaitable<void> AppDoor::watch() {
  while (!is_stopped_) {
    co_await check();
    if (is_stopped_) co_return;
    const auto now = steady_clock::now();
    if (!door_ || !closer_ || !stuck_.empty() || !connected_.empty()) last_app_ = now;
    expire_with_others(timer_, now - last_app_ < kRecent ? kCheckInterval : kIdleInterval);
    co_await wait_for(timer_);
  }
}

// The processes hang only by what an app does, so idle ones are looked at when an app connects. The
// socket stays readable while the door accepts none.
boost::asio::awaitable<void> AppDoor::watch_connecting() {
  while (!is_stopped_) {
    const bool is_readable = co_await wait_readable(connecting_);
    if (!is_readable || is_stopped_) co_return;
    last_app_ = steady_clock::now();
    timer_.cancel();
    pause_.expires_after(kCheckInterval);
    co_await wait_for(pause_);
  }
}

void AppDoor::note(const door::AppPacket& packet) {
  last_app_ = steady_clock::now();
  if (packet.change == door::AppChange::kConnected) {
    connected_.insert(packet.app);
  } else {
    connected_.erase(packet.app);
  }
}

boost::asio::awaitable<void> AppDoor::receive(std::shared_ptr<Door> door) {
  for (;;) {
    const bool is_readable = co_await wait_readable(door->link);
    if (!is_readable || door != door_) co_return;
    const auto change = door->child.next_change();
    if (!change) {
      replace_door(change.error());
      co_return;
    }
    if (!*change) continue;
    note(**change);
    events_.changed(**change);
  }
}

}  // namespace profd
