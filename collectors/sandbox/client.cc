#include "collectors/sandbox/client.h"

#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <utility>

namespace profd::sandbox {
namespace {

using Clock = std::chrono::steady_clock;
using std::chrono::milliseconds;
using std::chrono::nanoseconds;

constexpr milliseconds kCheckInterval{20};  // between two checks of a busy child's CPU time
constexpr milliseconds kStartLimit{5000};
constexpr milliseconds kEndLimit{200};
// The child may end itself while a request is on its way.
constexpr milliseconds kIdleMargin{5000};
// Killed children that hang in a read of a file system that does not answer.
constexpr std::size_t kMaxStuck = 4;

// 0 for a process that is gone.
nanoseconds cpu_time_of(pid_t process) {
  clockid_t clock = 0;
  timespec time{};
  if (::clock_getcpuclockid(process, &clock) != 0 || ::clock_gettime(clock, &time) != 0) return {};
  return std::chrono::seconds(time.tv_sec) + nanoseconds(time.tv_nsec);
}

// Whether the process was reaped. One that hangs in the kernel can't be, within any time.
bool reap(pid_t process, milliseconds limit) {
  const UniqueFd handle(static_cast<int>(::syscall(SYS_pidfd_open, process, 0)));
  pollfd ended{.fd = handle.get(), .events = POLLIN, .revents = 0};
  if (handle.valid()) ::poll(&ended, 1, static_cast<int>(limit.count()));
  return ::waitpid(process, nullptr, WNOHANG) != 0;
}

}  // namespace

std::uint32_t owner_of(int fd) {
  struct statx status {};
  const bool is_known =
      ::statx(fd, "", AT_EMPTY_PATH | AT_STATX_DONT_SYNC, STATX_UID, &status) == 0 &&
      (status.stx_mask & STATX_UID) != 0;
  return is_known ? status.stx_uid : UINT32_MAX;
}

bool are_of_root(std::span<const int> files) {
  return std::ranges::all_of(files, [](int fd) { return fd < 0 || owner_of(fd) == 0; });
}

Result<std::unique_ptr<Client>> Client::start(std::string name, const ChildLimits& limits,
                                              Spawn spawn) {
  std::unique_ptr<Client> client(new Client(std::move(name), limits, std::move(spawn)));
  if (auto ready = client->ensure_child(); !ready) return ready.error();
  return client;
}

Result<void> Client::ensure_child() {
  end_idle_child();
  if (child_ > 0) return {};
  reap_stuck();
  if (stuck_.size() >= kMaxStuck) {
    return fail(ErrorCode::kBusy, "too many " + name_ + " processes hang in file systems");
  }
  auto started = start_child();
  if (!started) end_child();
  if (started && std::exchange(started_once_, true)) ++restarts_;
  return started;
}

Result<void> Client::start_child() {
  auto child = sandbox::start_child(
      {.memory_bytes = limits_.memory_bytes, .file_bytes = limits_.answer_bytes}, spawn_);
  if (!child) return child.error();
  socket_ = std::move(child->socket);
  child_ = child->process;
  const auto answer = receive(kStartLimit, kStartLimit);
  if (!answer) return answer.error();
  child_cpu_time_ = cpu_time_of(child_);
  return {};
}

void Client::end_child() {
  socket_.reset();
  if (child_ <= 0) return;
  ::kill(child_, SIGKILL);
  if (!reap(child_, kEndLimit)) stuck_.push_back({.process = child_, .owner = owner_});
  child_ = -1;
}

void Client::end_idle_child() {
  const Clock::time_point now = Clock::now();
  const nanoseconds unused = now - std::exchange(last_request_, now);
  if (child_ <= 0 || limits_.idle_time == nanoseconds(0)) return;
  if (unused < limits_.idle_time - kIdleMargin) return;
  end_child();
  started_once_ = false;
}

void Client::reap_stuck() {
  std::erase_if(stuck_,
                [](const Stuck& stuck) { return ::waitpid(stuck.process, nullptr, WNOHANG) != 0; });
}

// One user other than root may hold one stuck child; otherwise one user could hold all of them.
bool Client::is_stuck_for(std::uint32_t owner) {
  reap_stuck();
  return owner != 0 && std::ranges::find(stuck_, owner, &Stuck::owner) != stuck_.end();
}

Result<std::string> Client::call(const Request& request, std::span<const int> files,
                                 milliseconds cpu_limit) {
  owner_ = files.empty() ? 0 : owners_.owner_of(owner_of(files.front()));
  if (is_stuck_for(owner_)) {
    return fail(ErrorCode::kBusy, "another " + name_ + " hangs in a file of the same owner");
  }
  if (auto sent = send(request, files); !sent) return sent.error();
  const Clock::time_point start = Clock::now();
  auto answer = receive(cpu_limit, limits_.wall_time);
  if (child_ > 0) {
    // The kernel may add the last milliseconds later: the next request then has them.
    const nanoseconds counted = std::exchange(child_cpu_time_, cpu_time_of(child_));
    cpu_time_ += child_cpu_time_ - counted;
  } else {
    cpu_time_ += std::min<nanoseconds>(Clock::now() - start, cpu_limit);
  }
  return answer;
}

Result<void> Client::send(const Request& request, std::span<const int> files) {
  // The child may have died between two requests; then another one gets this request.
  for (int tries = 0; tries < 2; ++tries) {
    if (auto ready = ensure_child(); !ready) return ready.error();
    if (send_packet(socket_.get(), bytes_of(request), files)) return {};
    const int error = errno;
    if (error != EPIPE && error != ECONNRESET) {
      // The kernel lacks memory, for instance. The child is idle, and the file is not to blame.
      return fail(ErrorCode::kBusy, fail_errno("could not send to the " + name_, error).message);
    }
    end_child();
  }
  return fail(ErrorCode::kUnavailable, "the " + name_ + " died");
}

Result<std::string> Client::receive(milliseconds cpu_limit, milliseconds wall_limit) {
  if (auto there = wait_for_answer(cpu_limit, wall_limit); !there) {
    end_child();
    return there.error();
  }
  return read_answer();
}

Result<void> Client::wait_for_answer(milliseconds cpu_limit, milliseconds wall_limit) const {
  const Clock::time_point end = Clock::now() + wall_limit;
  const nanoseconds cpu_end = cpu_time_of(child_) + cpu_limit;
  for (;;) {
    pollfd answer{.fd = socket_.get(), .events = POLLIN, .revents = 0};
    const int ready = ::poll(&answer, 1, static_cast<int>(kCheckInterval.count()));
    if (ready > 0) return {};
    if (ready < 0 && errno != EINTR) return fail_errno("could not wait for the " + name_);
    if (cpu_time_of(child_) > cpu_end) {
      return fail(ErrorCode::kTimeout, "the " + name_ + " exceeded its CPU time limit");
    }
    if (Clock::now() >= end) {
      return fail(ErrorCode::kTimeout, "the " + name_ + " exceeded its time limit");
    }
  }
}

// The child's result or its error. A child whose answer is invalid is ended.
Result<std::string> Client::read_answer() {
  Answer answer;
  const auto received = receive_packet(socket_.get(), buffer_of(answer));
  if (received && received->bytes == sizeof answer) {
    if (auto error = error_of(answer)) return std::move(*error);
    if (answer.status == 0 && received->descriptors.size() == 1) {
      auto bytes = read_sealed(received->descriptors[0].get(), limits_.answer_bytes);
      if (!bytes) end_child();
      return bytes;
    }
  }
  end_child();
  if (received && received->bytes == 0) {
    return fail(ErrorCode::kUnavailable, "the " + name_ + " died");
  }
  return fail(ErrorCode::kMalformed, "the answer of the " + name_ + " is malformed");
}

}  // namespace profd::sandbox
