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
#include <pthread.h>

#include "daemon/base/log.h"

namespace profd {
namespace {

constexpr std::chrono::milliseconds kPause{20};
constexpr std::chrono::milliseconds kCheckInterval{5};
constexpr int kSignal = SIGURG;  // by default it is ignored

std::chrono::nanoseconds cpu_time(clockid_t clock) {
  timespec time{};
  ::clock_gettime(clock, &time);
  return std::chrono::seconds(time.tv_sec) + std::chrono::nanoseconds(time.tv_nsec);
}

extern "C" void print_own_stack(int /*signal*/) {
  std::array<void*, 64> frames;
  const int count = ::backtrace(frames.data(), static_cast<int>(frames.size()));
  ::backtrace_symbols_fd(frames.data(), count, STDERR_FILENO);
}

}  // namespace

class StallMonitor::Task {
 public:
  void run() {
    const std::lock_guard lock(mutex_);
    ran_ = cpu_time(CLOCK_THREAD_CPUTIME_ID);
    changed_.notify_all();
  }

  // The CPU time that the io thread had when it ran this; none: it has not yet.
  std::optional<std::chrono::nanoseconds> when_ran() {
    const std::lock_guard lock(mutex_);
    return ran_;
  }

  // Until it has run, or for a check interval.
  void wait() {
    std::unique_lock lock(mutex_);
    changed_.wait_for(lock, kCheckInterval, [this] { return ran_.has_value(); });
  }

 private:
  std::mutex mutex_;
  std::condition_variable changed_;
  std::optional<std::chrono::nanoseconds> ran_;
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
  ::pthread_getcpuclockid(::pthread_self(), &thread_clock_);
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
    boost::asio::post(io_, [task] { task->run(); });
    watch(*task, stop);
    std::this_thread::sleep_for(kPause);
  }
}

// What counts is the CPU time of the io thread, and the time in which it was seen blocked: a wait
// for a CPU is in schedstat when it is over, and this thread may have waited for one too.
void StallMonitor::watch(Task& task, const std::stop_token& stop) {
  const auto begin = std::chrono::steady_clock::now();
  const auto cpu_before = cpu_time(thread_clock_);
  const auto without_cpu_before = without_cpu();
  std::chrono::nanoseconds blocked{};
  bool is_reported = false;
  while (true) {
    const auto passed = std::chrono::steady_clock::now() - begin;
    const auto used = cpu_time(thread_clock_) - cpu_before;
    const bool was_blocked = is_blocked();
    const std::optional<std::chrono::nanoseconds> ran = task.when_ran();
    if (!ran && was_blocked) blocked = passed - used - (without_cpu() - without_cpu_before);
    const auto stood =
        std::chrono::duration_cast<Milliseconds>((ran ? *ran - cpu_before : used) + blocked);
    longest_ms_ = std::max<std::int64_t>(longest_ms_, stood.count());
    if (stood >= limit_ && !is_reported) report(stood);
    is_reported = is_reported || stood >= limit_;
    if (ran || stop.stop_requested()) return;
    task.wait();
  }
}

void StallMonitor::report(Milliseconds stood) {
  ++stalls_;
  log::error("the io thread stands for {} ms", stood.count());
  ::syscall(SYS_tgkill, ::getpid(), thread_id_, kSignal);
}

// The state behind the name, which is in parentheses: R is a thread that runs or waits for a CPU.
bool StallMonitor::is_blocked() const {
  std::ifstream file("/proc/self/task/" + std::to_string(thread_id_) + "/stat");
  std::string line;
  std::getline(file, line);
  const std::size_t name_end = line.rfind(')');
  return name_end != std::string::npos && !line.substr(name_end).starts_with(") R");
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
