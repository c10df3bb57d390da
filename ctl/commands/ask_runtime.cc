#include "ctl/commands/ask_runtime.h"

#include <fcntl.h>
#include <grp.h>
#include <poll.h>
#include <signal.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/un.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <charconv>
#include <cstring>
#include <optional>
#include <string>
#include <string_view>
#include <thread>
#include <utility>
#include <vector>

#include "ctl/doctor/process_facts.h"
#include "formats/api/error_json.h"
#include "formats/base/unique_fd.h"

namespace profd {
namespace {

using Clock = std::chrono::steady_clock;
using std::chrono::milliseconds;

constexpr milliseconds kPause{20};
constexpr std::size_t kMaxAnswerBytes = std::size_t{64} << 10;

// Version 1 of the attach protocol: the command and its three arguments, each ended by NUL.
constexpr std::string_view kRequest("1\0jcmd\0Compiler.perfmap\0\0\0", 26);

// One JVM, with its /tmp open, so that all names are looked up there and nowhere else.
struct Jvm {
  pid_t pid = 0;
  ProcessFacts facts;
  UniqueFd pidfd;
  UniqueFd tmp;  // O_PATH

  [[nodiscard]] std::string text() const { return "process " + std::to_string(pid); }
  [[nodiscard]] std::string file(std::string_view stem) const {
    return std::string(stem) + std::to_string(facts.namespace_pid);
  }
};

// OpenJ9 has a libjvm.so too, in front of its own libraries.
bool is_hotspot(pid_t pid) {
  const std::vector<std::string> paths = code_paths_of(pid);
  const auto is_jvm = [](const std::string& path) { return path.ends_with("/libjvm.so"); };
  const auto is_openj9 = [](const std::string& path) { return path.find("/libj9") != path.npos; };
  return std::ranges::any_of(paths, is_jvm) && std::ranges::none_of(paths, is_openj9);
}

// As the daemon says it: who may not ask may not see what the process runs either.
Result<void> check_is_ours(const Jvm& jvm) {
  const uid_t caller = ::geteuid();
  if (caller == 0 || caller == jvm.facts.uid) return {};
  return fail(ErrorCode::kPermissionDenied,
              "pid " + std::to_string(jvm.pid) + " belongs to another user",
              "only root may ask for other users' processes");
}

// The signal that asks for the socket would end a program that does not catch it, as a JVM with
// -Xrs does not.
Result<void> check_is_hotspot(const Jvm& jvm) {
  if (!is_hotspot(jvm.pid)) {
    return fail(ErrorCode::kUnsupported, jvm.text() + " runs no HotSpot JVM that may be seen",
                "--ask-runtime is for Java; 'profctl doctor --pid' names other runtimes' switches");
  }
  const bool catches_quit = (jvm.facts.caught_signals >> (SIGQUIT - 1) & 1) != 0;
  if (catches_quit) return {};
  return fail(ErrorCode::kUnsupported, "the JVM of " + jvm.text() + " takes no questions",
              "it is about to start, or runs with -Xrs");
}

Result<Jvm> find_jvm(pid_t pid) {
  Jvm jvm;
  jvm.pid = pid;
  jvm.pidfd = UniqueFd(static_cast<int>(::syscall(SYS_pidfd_open, pid, 0)));
  Result<ProcessFacts> facts = read_process_facts(pid);
  if (!facts) return facts.error();
  jvm.facts = *facts;
  if (auto ours = check_is_ours(jvm); !ours) return ours.error();
  if (auto fits = check_is_hotspot(jvm); !fits) return fits.error();
  const std::string path = "/proc/" + std::to_string(pid) + "/root/tmp";
  jvm.tmp = UniqueFd(::open(path.c_str(), O_PATH | O_DIRECTORY | O_CLOEXEC));
  if (!jvm.tmp.valid() || !jvm.pidfd.valid()) return fail_errno("could not open " + path);
  return jvm;
}

// Whoever the process belongs to, and no more than that. A caller without privileges is that
// already, or gets nowhere.
Result<void> become_user_of(const Jvm& jvm) {
  const auto& [uid, gid, namespace_pid, caught] = jvm.facts;
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
         S_ISSOCK(status.st_mode) && status.st_uid == jvm.facts.uid;
}

// Where a JVM finds this file when it gets the signal, it opens the socket instead of printing its
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

Result<void> wake(const Jvm& jvm, milliseconds limit) {
  if (listens(jvm)) return {};
  const AttachFile file(jvm.file(".attach_pid"));
  if (file.error() != 0) {
    return fail_errno("could not make a file in /tmp of " + jvm.text(), file.error());
  }
  if (::syscall(SYS_pidfd_send_signal, jvm.pidfd.get(), SIGQUIT, nullptr, 0) != 0) {
    return fail_errno("could not wake the JVM of " + jvm.text());
  }
  for (const auto end = Clock::now() + limit; Clock::now() < end;) {
    if (listens(jvm)) return {};
    std::this_thread::sleep_for(kPause);
  }
  return fail(ErrorCode::kTimeout, "the JVM of " + jvm.text() + " opened no socket in its /tmp",
              "it may be stopped, or run with -XX:+DisableAttachMechanism");
}

// Anyone can put a socket into /tmp: the other end has to be the process itself.
bool is_end_of(int socket, const Jvm& jvm) {
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
    return fail_errno("could not reach the JVM of " + jvm.text());
  }
  if (!is_end_of(socket.get(), jvm)) {
    return fail(ErrorCode::kPermissionDenied,
                "the socket in /tmp of " + jvm.text() + " is another process's",
                "remove " + jvm.file("/tmp/.java_pid") + " there");
  }
  return socket;
}

// Until the other end closes it. None: it took longer.
std::optional<std::string> read_to_end(int socket, Clock::time_point end) {
  std::string answer;
  std::array<char, 4096> bytes{};
  while (answer.size() < kMaxAnswerBytes) {
    const auto left = std::chrono::ceil<milliseconds>(end - Clock::now()).count();
    if (left <= 0) return std::nullopt;
    pollfd ready{.fd = socket, .events = POLLIN, .revents = 0};
    if (::poll(&ready, 1, static_cast<int>(left)) <= 0) continue;
    const ssize_t got = ::read(socket, bytes.data(), bytes.size());
    if (got < 0 && (errno == EINTR || errno == EAGAIN)) continue;
    if (got <= 0) return answer;
    answer.append(bytes.data(), static_cast<std::size_t>(got));
  }
  return answer;
}

// The first line is the command's status, 0 for success; then what it has to say.
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
  if (auto awake = wake(jvm, limits.listen); !awake) return awake;
  const Result<UniqueFd> socket = connect_to(jvm);
  if (!socket) return socket.error();
  const ssize_t sent = ::send(socket->get(), kRequest.data(), kRequest.size(), MSG_NOSIGNAL);
  if (sent != static_cast<ssize_t>(kRequest.size())) {
    return fail_errno("could not ask the JVM of " + jvm.text());
  }
  const auto answer = read_to_end(socket->get(), Clock::now() + limits.answer);
  if (!answer) {
    return fail(ErrorCode::kTimeout, "the JVM of " + jvm.text() + " does not answer");
  }
  return check_answer(jvm, *answer);
}

std::string read_all(int fd) {
  std::string text;
  std::array<char, 4096> bytes{};
  for (;;) {
    const ssize_t got = ::read(fd, bytes.data(), bytes.size());
    if (got < 0 && errno == EINTR) continue;
    if (got <= 0) return text;
    text.append(bytes.data(), static_cast<std::size_t>(got));
  }
}

// Says nothing where all went well.
[[noreturn]] void run_child(const Jvm& jvm, const AskLimits& limits, int out) {
  const Result<void> asked = ask(jvm, limits);
  const std::string text = asked ? std::string("ok") : to_json(asked.error());
  (void)!::write(out, text.data(), text.size());
  ::_exit(0);
}

}  // namespace

Result<void> ask_for_perf_map(pid_t pid, const AskLimits& limits) {
  const Result<Jvm> jvm = find_jvm(pid);
  if (!jvm) return jvm.error();
  std::array<int, 2> fds{};
  if (::pipe2(fds.data(), O_CLOEXEC) != 0) return fail_errno("could not make a pipe");
  const UniqueFd read_end(fds[0]);
  UniqueFd write_end(fds[1]);
  const pid_t child = ::fork();
  if (child < 0) return fail_errno("could not fork");
  if (child == 0) run_child(*jvm, limits, write_end.get());
  write_end.reset();
  const std::string said = read_all(read_end.get());
  while (::waitpid(child, nullptr, 0) < 0 && errno == EINTR) {
  }
  if (said == "ok") return {};
  return parse_error(said);
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
