#include "ctl/process/ask_runtime.h"

#include <fcntl.h>
#include <grp.h>
#include <signal.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/un.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <charconv>
#include <cstring>
#include <string>
#include <string_view>
#include <thread>
#include <vector>

#include "collectors/host/find_file.h"
#include "ctl/process/child_process.h"
#include "formats/api/error_json.h"
#include "formats/base/unique_fd.h"
#include "formats/proc/maps.h"
#include "formats/proc/status.h"

namespace profd {
namespace {

using Clock = std::chrono::steady_clock;
using std::chrono::milliseconds;

constexpr milliseconds kPollInterval{20};
constexpr std::size_t kMaxAnswerBytes = std::size_t{64} << 10;

// Version 1 of the attach protocol: a command and three arguments, each with a NUL at its end.
constexpr std::string_view kRequest("1\0jcmd\0Compiler.perfmap\0\0\0", 26);

// A process and its /tmp directory, in which every file of the protocol is.
struct Jvm {
  pid_t pid = 0;
  ProcessStatus status;
  UniqueFd pidfd;
  UniqueFd tmp;  // O_PATH

  [[nodiscard]] std::string text() const { return "process " + std::to_string(pid); }
  [[nodiscard]] std::string file(std::string_view stem) const {
    return std::string(stem) + std::to_string(status.namespace_pid);
  }
};

// OpenJ9 has a libjvm.so too, which loads its own libraries.
bool is_hotspot(pid_t pid) {
  const std::vector<std::string> paths = code_paths_of(pid);
  const auto is_jvm = [](const std::string& path) { return path.ends_with("/libjvm.so"); };
  const auto is_openj9 = [](const std::string& path) { return path.find("/libj9") != path.npos; };
  return std::ranges::any_of(paths, is_jvm) && std::ranges::none_of(paths, is_openj9);
}

// The text of the daemon: a caller who may not profile a process may not see what it runs either.
Result<void> check_owner(const Jvm& jvm) {
  const uid_t caller = ::geteuid();
  if (caller == 0 || caller == jvm.status.effective_uid()) return {};
  return fail(ErrorCode::kPermissionDenied,
              "pid " + std::to_string(jvm.pid) + " belongs to another user",
              "only root may ask for other users' processes");
}

// The signal that makes a JVM open its socket would kill a program that does not catch it. A JVM
// with -Xrs does not.
Result<void> check_is_hotspot(const Jvm& jvm) {
  if (!is_hotspot(jvm.pid)) {
    return fail(
        ErrorCode::kUnsupported, jvm.text() + " does not run a HotSpot JVM",
        "--ask-runtime is for Java; 'profctl doctor --pid PID' says what other runtimes need");
  }
  const bool catches_quit = (jvm.status.caught_signals >> (SIGQUIT - 1) & 1) != 0;
  if (catches_quit) return {};
  return fail(ErrorCode::kUnsupported, "the JVM of " + jvm.text() + " can't be attached to",
              "it is still starting, or runs with -Xrs");
}

Result<Jvm> find_jvm(pid_t pid) {
  const std::string process = "/proc/" + std::to_string(pid);
  Jvm jvm;
  jvm.pid = pid;
  // The pidfd comes first: a process that gets the same pid later is never signalled.
  jvm.pidfd.reset(static_cast<int>(::syscall(SYS_pidfd_open, pid, 0)));
  const auto status = read_process_status(process + "/status");
  if (!status) return fail(ErrorCode::kNotFound, "no such process " + std::to_string(pid));
  jvm.status = *status;
  if (auto checked = check_owner(jvm); !checked) return checked.error();
  if (auto checked = check_is_hotspot(jvm); !checked) return checked.error();
  if (!jvm.pidfd.valid()) return fail_errno("could not open " + process);
  auto tmp = find_file(process + "/root/tmp");
  if (!tmp) return tmp.error();
  jvm.tmp = std::move(*tmp);
  return jvm;
}

// Enters /tmp of the process and drops every privilege that its user does not have. A caller
// without privileges is that user.
Result<void> become_user_of(const Jvm& jvm) {
  const uid_t uid = jvm.status.effective_uid();
  const gid_t gid = jvm.status.effective_gid();
  if (::fchdir(jvm.tmp.get()) != 0) return fail_errno("could not enter /tmp of " + jvm.text());
  if (::geteuid() != 0) return {};
  if (::setgroups(0, nullptr) != 0 || ::setresgid(gid, gid, gid) != 0 ||
      ::setresuid(uid, uid, uid) != 0) {
    return fail_errno("could not become the user of " + jvm.text());
  }
  return {};
}

bool listens(const Jvm& jvm) {
  struct stat status {};
  const std::string name = jvm.file(".java_pid");
  return ::fstatat(AT_FDCWD, name.c_str(), &status, AT_SYMLINK_NOFOLLOW) == 0 &&
         S_ISSOCK(status.st_mode) && status.st_uid == jvm.status.effective_uid();
}

// A JVM that finds this file when it gets the signal opens its socket, instead of printing its
// threads.
class AttachFile {
 public:
  explicit AttachFile(std::string name) : name_(std::move(name)) {
    const UniqueFd file(
        ::open(name_.c_str(), O_CREAT | O_EXCL | O_WRONLY | O_NOFOLLOW | O_CLOEXEC, 0600));
    made_ = file.valid();
    error_ = made_ || errno == EEXIST ? 0 : errno;
  }
  AttachFile(const AttachFile&) = delete;
  AttachFile& operator=(const AttachFile&) = delete;
  ~AttachFile() {
    if (made_) ::unlink(name_.c_str());
  }
  [[nodiscard]] int error() const { return error_; }

 private:
  std::string name_;
  bool made_ = false;
  int error_ = 0;
};

Result<void> make_it_listen(const Jvm& jvm, milliseconds limit) {
  if (listens(jvm)) return {};
  const AttachFile file(jvm.file(".attach_pid"));
  if (file.error() != 0) {
    return fail_errno("could not make a file in /tmp of " + jvm.text(), file.error());
  }
  if (::syscall(SYS_pidfd_send_signal, jvm.pidfd.get(), SIGQUIT, nullptr, 0) != 0) {
    return fail_errno("could not signal the JVM of " + jvm.text());
  }
  for (const auto end = Clock::now() + limit; Clock::now() < end;) {
    if (listens(jvm)) return {};
    std::this_thread::sleep_for(kPollInterval);
  }
  return fail(ErrorCode::kTimeout, "the JVM of " + jvm.text() + " opened no socket in its /tmp",
              "it may be stopped, or run with -XX:+DisableAttachMechanism");
}

// Any user can make a socket in /tmp, so the other end must be the process itself.
bool is_peer(int socket, const Jvm& jvm) {
  ucred peer{};
  socklen_t size = sizeof peer;
  return ::getsockopt(socket, SOL_SOCKET, SO_PEERCRED, &peer, &size) == 0 && peer.pid == jvm.pid;
}

Result<UniqueFd> connect_to(const Jvm& jvm) {
  UniqueFd socket(::socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0));
  if (!socket.valid()) return fail_errno("could not make a socket");
  sockaddr_un address{};
  address.sun_family = AF_UNIX;
  jvm.file(".java_pid").copy(address.sun_path, sizeof address.sun_path - 1);
  if (::connect(socket.get(), reinterpret_cast<const sockaddr*>(&address), sizeof address) != 0) {
    return fail_errno("could not connect to the JVM of " + jvm.text());
  }
  if (!is_peer(socket.get(), jvm)) {
    return fail(ErrorCode::kPermissionDenied,
                "the socket in /tmp of " + jvm.text() + " belongs to another process",
                "remove " + jvm.file("/tmp/.java_pid") + " there");
  }
  return socket;
}

// The first line of an answer is the status, 0 for success; the message follows.
Result<void> check_answer(const Jvm& jvm, const std::string& answer) {
  int status = -1;
  std::from_chars(answer.data(), answer.data() + answer.size(), status);
  if (status == 0) return {};
  const std::size_t second = answer.find('\n');
  const std::string text = second == std::string::npos ? std::string() : answer.substr(second + 1);
  if (text.find("Unknown diagnostic command") != std::string::npos) {
    return fail(ErrorCode::kUnsupported,
                "the JVM of " + jvm.text() + " has no Compiler.perfmap: it is older than Java 17",
                "start it with -agentpath:libperf-jvmti.so");
  }
  return fail(ErrorCode::kIo, "the JVM of " + jvm.text() + " refused: " +
                                  text.substr(0, std::min(text.find('\n'), std::size_t{200})));
}

Result<void> ask(const Jvm& jvm, const AskLimits& limits) {
  if (auto became = become_user_of(jvm); !became) return became;
  if (auto listening = make_it_listen(jvm, limits.listen); !listening) return listening;
  const Result<UniqueFd> socket = connect_to(jvm);
  if (!socket) return socket.error();
  const ssize_t sent = ::send(socket->get(), kRequest.data(), kRequest.size(), MSG_NOSIGNAL);
  if (sent != static_cast<ssize_t>(kRequest.size())) {
    return fail_errno("could not send to the JVM of " + jvm.text());
  }
  const auto answer =
      read_until_closed(socket->get(), kMaxAnswerBytes, Clock::now() + limits.answer);
  if (!answer) return fail(ErrorCode::kTimeout, "the JVM of " + jvm.text() + " does not answer");
  return check_answer(jvm, *answer);
}

// Writes "ok" or the error as JSON to `out`.
[[noreturn]] void run_child(const Jvm& jvm, const AskLimits& limits, int out) {
  const Result<void> asked = ask(jvm, limits);
  const std::string text = asked ? "ok" : to_json(asked.error());
  (void)!::write(out, text.data(), text.size());
  ::_exit(0);
}

}  // namespace

Result<void> ask_for_perf_map(pid_t pid, const AskLimits& limits) {
  const Result<Jvm> jvm = find_jvm(pid);
  if (!jvm) return jvm.error();
  auto pipe = make_pipe();
  if (!pipe) return pipe.error();
  const pid_t child = ::fork();
  if (child < 0) return fail_errno("could not fork");
  if (child == 0) run_child(*jvm, limits, pipe->write_end.get());
  pipe->write_end.reset();
  const auto outcome = read_until_closed(pipe->read_end.get(), kMaxAnswerBytes);
  wait_for_exit(child);
  if (outcome == "ok") return {};
  return parse_error(outcome.value_or(""));
}

Result<void> ask_for_perf_maps(std::span<const std::uint32_t> pids) {
  Result<void> first;
  for (const std::uint32_t pid : pids) {
    Result<void> asked = ask_for_perf_map(static_cast<pid_t>(pid));
    if (!asked && first) first = std::move(asked);
  }
  return first;
}

}  // namespace profd
