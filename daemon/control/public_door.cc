#include "daemon/control/public_door.h"

#include <fcntl.h>
#include <signal.h>
#include <sys/wait.h>

#include <string>
#include <utility>

#include "daemon/base/coroutines.h"
#include "daemon/base/log.h"
#include "daemon/service/caller.h"

namespace profd {
namespace {

using boost::asio::posix::stream_descriptor;
using std::chrono::steady_clock;
using std::chrono_literals::operator""ms;
using std::chrono_literals::operator""s;

// Between two checks of the door: with clients, for some time after the last one, and then.
constexpr auto kBusyInterval = 250ms;
constexpr auto kRecentInterval = 1000ms;
constexpr auto kIdleInterval = 4000ms;
// The door may still have a client that the server has forgotten, to send the rest of an answer.
constexpr auto kRecent = 15s;
constexpr auto kDescriptorPause = 100ms;
// A client that does not read delays the end of the daemon by no more.
constexpr auto kFinishLimit = 2s;
constexpr auto kFinishInterval = 10ms;

}  // namespace

struct PublicDoor::Door {
  Door(boost::asio::io_context& io, door::DoorChild started)
      : child(std::move(started)), link(io, ::fcntl(child.descriptor(), F_DUPFD_CLOEXEC, 0)) {}

  door::DoorChild child;
  stream_descriptor link;
};

PublicDoor::PublicDoor(boost::asio::io_context& io, UnixListener listener, ControlServer& server)
    : io_(io),
      listener_(std::move(listener)),
      socket_(listener_.take_fd()),
      server_(server),
      group_(find_privileged_group()),
      timer_(io),
      pause_(io),
      connecting_(io, ::fcntl(socket_.get(), F_DUPFD_CLOEXEC, 0)) {
  refuse_descriptors(socket_.get());
}

std::optional<pid_t> PublicDoor::process() const {
  if (!door_) return std::nullopt;
  return door_->child.process();
}

void PublicDoor::start() {
  spawn(io_, watch());
  spawn(io_, watch_connecting());
}

void PublicDoor::stop_accepting() {
  is_stopped_ = true;
  timer_.cancel();
  stop_watching();
  if (door_) door_->child.stop_accepting();
}

boost::asio::awaitable<void> PublicDoor::finish() {
  close_listener();
  const std::shared_ptr<Door> last = std::exchange(door_, nullptr);
  if (!last) co_return;
  last->child.finish();
  const auto limit = steady_clock::now() + kFinishLimit;
  boost::asio::steady_timer pause(io_);
  while (!last->child.has_ended() && steady_clock::now() < limit) {
    pause.expires_after(kFinishInterval);
    co_await wait_for(pause);
  }
  end_door(*last);
}

void PublicDoor::close() {
  close_listener();
  if (door_) end_door(*std::exchange(door_, nullptr));
}

// A door has the listening socket open too. So this is not its last close, which would close what
// waiting clients sent.
void PublicDoor::close_listener() {
  is_stopped_ = true;
  timer_.cancel();
  stop_watching();
  if (!door_) return;
  boost::system::error_code ignored;
  connecting_.close(ignored);
  socket_.reset();
}

void PublicDoor::stop_watching() {
  boost::system::error_code ignored;
  if (connecting_.is_open()) connecting_.cancel(ignored);
  pause_.cancel();
}

boost::asio::awaitable<void> PublicDoor::start_door() {
  if (stuck_.size() >= kMaxStuck) {
    if (!std::exchange(was_refused_, true)) {
      log::error("the public control socket is not served: {} doors hang", stuck_.size());
    }
    co_return;
  }
  auto start = [listener = socket_.get(), group = group_] {
    return door::DoorChild::start(listener, group);
  };
  auto operation = starter_.run(std::move(start));
  auto child = co_await std::move(operation);
  if (!child) {
    if (!std::exchange(was_refused_, true)) {
      log::error("could not start the door: {}", child.error().message);
    }
    co_return;
  }
  was_refused_ = false;
  if (is_stopped_) {
    kill(child->process());
    co_return;
  }
  door_ = std::make_shared<Door>(io_, std::move(*child));
  spawn(io_, receive(door_));
}

void PublicDoor::end_door(Door& ended) {
  boost::system::error_code ignored;
  ended.link.close(ignored);
  server_.abort_clients_of_door();
  kill(ended.child.process());
}

void PublicDoor::kill(pid_t process) {
  ::kill(process, SIGKILL);  // not reaped yet, so the pid is still its own
  stuck_.push_back(process);
  reap();
}

void PublicDoor::reap() {
  std::erase_if(stuck_, [](pid_t process) { return ::waitpid(process, nullptr, WNOHANG) != 0; });
  server_.counts().doors_stuck = stuck_.size();
}

void PublicDoor::replace(const Error& why) {
  log::warn("the door is replaced: {}", why.message);
  ++server_.counts().doors_replaced;
  end_door(*std::exchange(door_, nullptr));
}

boost::asio::awaitable<void> PublicDoor::check() {
  if (door_ && door_->child.stands_still(kStandstill)) {
    replace(fail(ErrorCode::kTimeout, "it stands still"));
  }
  if (!stuck_.empty()) reap();
  if (!door_) {
    co_await start_door();
  }
}

boost::asio::awaitable<void> PublicDoor::watch() {
  while (!is_stopped_) {
    co_await check();
    if (is_stopped_) co_return;
    expire_with_others(timer_, interval());
    co_await wait_for(timer_);
  }
}

std::chrono::milliseconds PublicDoor::interval() {
  const auto now = steady_clock::now();
  if (!door_ || !stuck_.empty() || server_.clients_of_door() != 0) {
    last_client_ = now;
    return kBusyInterval;
  }
  return now - last_client_ < kRecent ? kRecentInterval : kIdleInterval;
}

// A door hangs only by what a client does, so an idle one is checked when a client connects. The
// socket stays readable while the door accepts none.
boost::asio::awaitable<void> PublicDoor::watch_connecting() {
  while (!is_stopped_) {
    const bool is_readable = co_await wait_readable(connecting_);
    if (!is_readable || is_stopped_) co_return;
    last_client_ = steady_clock::now();
    timer_.cancel();
    pause_.expires_after(kRecentInterval);
    co_await wait_for(pause_);
  }
}

boost::asio::awaitable<void> PublicDoor::wait_for_descriptor(const std::shared_ptr<Door>& door) {
  boost::asio::steady_timer pause(io_);
  for (bool is_first = true; door == door_; is_first = false) {
    const UniqueFd free(::fcntl(door->child.descriptor(), F_DUPFD_CLOEXEC, 0));
    if (free.valid()) co_return;
    if (is_first) {
      log::warn("could not accept a connection: no file descriptor is free");
      ++server_.counts().starved;
    }
    pause.expires_after(kDescriptorPause);
    co_await wait_for(pause);
  }
}

boost::asio::awaitable<void> PublicDoor::receive(std::shared_ptr<Door> door) {
  for (;;) {
    const bool is_readable = co_await wait_readable(door->link);
    if (!is_readable || door != door_) co_return;
    co_await wait_for_descriptor(door);
    if (door != door_) co_return;
    auto client = door->child.next_client();
    if (!client) {
      replace(client.error());
      co_return;
    }
    if (!*client) continue;
    if ((*client)->socket.valid()) {
      server_.serve_client_of_door((*client)->peer, std::move((*client)->socket));
    } else {
      server_.count_unread((*client)->peer);
    }
  }
}

}  // namespace profd
