#include "daemon/base/stall_monitor.h"

#include <signal.h>
#include <sys/prctl.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <charconv>
#include <cstdlib>
#include <fstream>
#include <string>
#include <string_view>

#include <boost/asio/post.hpp>
#include <execinfo.h>

#include "daemon/base/log.h"

namespace profd {
namespace {

constexpr std::chrono::milliseconds kPause{20};
constexpr std::chrono::milliseconds kCheckInterval{5};
constexpr int kSignal = SIGURG;  // by default it is ignored

extern "C" void print_own_stack(int /*signal*/) {
  std::array<void*, 64> frames;
  const int count = ::backtrace(frames.data(), static_cast<int>(frames.size()));
  ::backtrace_symbols_fd(frames.data(), count, STDERR_FILENO);
}

}  // namespace

struct StallMonitor::Task {
  std::mutex mutex;
  std::condition_variable changed;
  bool has_run = false;
};

std::optional<StallMonitor::Milliseconds> StallMonitor::limit_of_environment() {
  const char* const text = std::getenv("PROFD_STALL_MS");
  if (text == nullptr) return std::nullopt;
  const std::string_view digits(text);
  unsigned limit = 0;
  const auto parsed = std::from_chars(digits.begin(), digits.end(), limit);
  if (parsed.ec != std::errc() || parsed.ptr != digits.end() || limit == 0) return std::nullopt;
  return Milliseconds(limit);
}

// The first backtrace() loads a library, which a signal handler must not do.
StallMonitor::StallMonitor(boost::asio::io_context& io, Milliseconds limit)
    : io_(io), limit_(limit), thread_id_(static_cast<pid_t>(::syscall(SYS_gettid))) {
  std::array<void*, 1> frame;
  (void)::backtrace(frame.data(), 1);
  struct sigaction action {};
  action.sa_handler = print_own_stack;
  action.sa_flags = SA_RESTART;
  ::sigaction(kSignal, &action, nullptr);
  thread_ = std::jthread([this](const std::stop_token& stop) { run(stop); });
}

StallMonitor::~StallMonitor() {
  thread_.request_stop();
  thread_.join();
  ::signal(kSignal, SIG_DFL);
}

void StallMonitor::run(const std::stop_token& stop) {
  ::prctl(PR_SET_NAME, "stall-monitor");
  while (!stop.stop_requested()) {
    const auto task = std::make_shared<Task>();
    boost::asio::post(io_, [task] {
      const std::lock_guard lock(task->mutex);
      task->has_run = true;
      task->changed.notify_all();
    });
    watch(*task, stop);
    std::this_thread::sleep_for(kPause);
  }
}

void StallMonitor::watch(Task& task, const std::stop_token& stop) {
  const auto begin = std::chrono::steady_clock::now();
  const auto without_cpu_before = without_cpu();
  bool is_reported = false;
  bool has_run = false;
  while (!has_run && !stop.stop_requested()) {
    {
      std::unique_lock lock(task.mutex);
      has_run = task.changed.wait_for(lock, kCheckInterval, [&task] { return task.has_run; });
    }
    const auto stood = std::chrono::duration_cast<Milliseconds>(
        std::chrono::steady_clock::now() - begin - (without_cpu() - without_cpu_before));
    longest_ms_ = std::max<std::int64_t>(longest_ms_, stood.count());
    if (stood < limit_ || is_reported) continue;
    is_reported = true;
    ++stalls_;
    log::error("the io thread stands for {} ms", stood.count());
    ::syscall(SYS_tgkill, ::getpid(), thread_id_, kSignal);
  }
}

// The second number of schedstat: the time in which the thread waited for a CPU.
std::chrono::nanoseconds StallMonitor::without_cpu() const {
  std::ifstream file("/proc/self/task/" + std::to_string(thread_id_) + "/schedstat");
  std::int64_t on_cpu_ns = 0;
  std::int64_t waited_ns = 0;
  file >> on_cpu_ns >> waited_ns;
  return std::chrono::nanoseconds(waited_ns);
}

}  // namespace profd
