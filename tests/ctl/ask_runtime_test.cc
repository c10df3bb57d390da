#include "ctl/process/ask_runtime.h"

#include <fcntl.h>
#include <signal.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <sys/wait.h>
#include <unistd.h>

#include <array>
#include <cstdio>
#include <filesystem>
#include <fstream>
#include <functional>
#include <map>
#include <string>

#include <gmock/gmock.h>
#include <stdlib.h>

#include "formats/base/unique_fd.h"
#include "tests/ctl/a_result.h"
#include "tests/ctl/ran.h"
#include "tests/daemon/control/running_server.h"

namespace profd {
namespace {

using namespace std::chrono_literals;
using testing::HasSubstr;

constexpr AskLimits kShort{.listen = 300ms, .answer = 300ms};

std::string socket_of(pid_t pid) { return "/tmp/.java_pid" + std::to_string(pid); }

// A child that has a file of that name mapped as code. It runs `life` after the first SIGQUIT;
// without a `life` it does not catch that signal.
class Impostor {
 public:
  Impostor(const std::string& mapped_name, const std::function<void()>& life) {
    std::string directory = "/tmp/profd-ask-XXXXXX";
    EXPECT_NE(::mkdtemp(directory.data()), nullptr);
    directory_ = directory;
    const std::string file = directory_ + "/" + mapped_name;
    std::ofstream(file) << std::string(4096, '\0');
    std::array<int, 2> fds{};
    EXPECT_EQ(::pipe2(fds.data(), O_CLOEXEC), 0);
    pid_ = ::fork();
    if (pid_ == 0) {
      const UniqueFd code(::open(file.c_str(), O_RDONLY));
      ::mmap(nullptr, 4096, PROT_READ | PROT_EXEC, MAP_PRIVATE, code.get(), 0);
      sigset_t none{};
      sigset_t quit{};
      ::sigaddset(&quit, SIGQUIT);
      ::sigprocmask(SIG_SETMASK, life ? &quit : &none, nullptr);
      if (life) ::signal(SIGQUIT, [](int) {});
      (void)!::write(fds[1], "x", 1);
      ::sigsuspend(&none);  // until SIGQUIT
      if (life) life();
      ::pause();
      ::_exit(0);
    }
    char ready = 0;
    EXPECT_EQ(::read(fds[0], &ready, 1), 1);
    ::close(fds[0]);
    ::close(fds[1]);
  }
  Impostor(const Impostor&) = delete;
  Impostor& operator=(const Impostor&) = delete;
  ~Impostor() {
    ::kill(pid_, SIGKILL);
    ::waitpid(pid_, nullptr, 0);
    ::unlink(socket_of(pid_).c_str());
    std::filesystem::remove_all(directory_);
  }

  [[nodiscard]] pid_t pid() const { return pid_; }
  [[nodiscard]] bool lives() const { return ::waitpid(pid_, nullptr, WNOHANG) == 0; }

 private:
  std::string directory_;
  pid_t pid_ = -1;
};

// Like a JVM, it listens before the socket has its name, so that nobody finds one that refuses.
int listen_at(const std::string& path) {
  const int socket = ::socket(AF_UNIX, SOCK_STREAM, 0);
  const std::string unfinished = path + ".tmp";
  sockaddr_un address{};
  address.sun_family = AF_UNIX;
  unfinished.copy(address.sun_path, sizeof address.sun_path - 1);
  ::bind(socket, reinterpret_cast<const sockaddr*>(&address), sizeof address);
  ::listen(socket, 1);
  std::rename(unfinished.c_str(), path.c_str());
  return socket;
}

bool was_asked_to_attach() {
  return ::access(("/tmp/.attach_pid" + std::to_string(::getpid())).c_str(), F_OK) == 0;
}

// Answers one request as a JVM does (JDK 17, os_linux/attachListener_linux.cpp), and calls
// `before_answer` while the client waits for the answer.
void answer_next(
    int listening, const std::string& answer, const std::function<void()>& before_answer = [] {}) {
  const int asker = ::accept(listening, nullptr, nullptr);
  std::array<char, 64> request{};
  const ssize_t got = ::read(asker, request.data(), request.size());
  const std::string expected("1\0jcmd\0Compiler.perfmap\0\0\0", 26);
  const bool as_it_should = std::string(request.data(), static_cast<std::size_t>(got)) == expected;
  const std::string text = as_it_should ? answer : "1\nwrong request\n";
  before_answer();
  (void)!::write(asker, text.data(), text.size());
  ::close(asker);
}

void answer_as_jvm(const std::string& answer) {
  if (was_asked_to_attach()) answer_next(listen_at(socket_of(::getpid())), answer);
}

// Answers every request. Appends a byte to the file before each answer, since the client continues
// once it has the answer.
void answer_and_count(const std::string& count) {
  if (!was_asked_to_attach()) return;
  for (const int listening = listen_at(socket_of(::getpid()));;) {
    answer_next(listening, "0\n", [&count] { std::ofstream(count, std::ios::app) << '.'; });
  }
}

TEST(AskRuntime, ReturnsOnceTheJvmHasWrittenItsMap) {
  const Impostor jvm("libjvm.so", [] { answer_as_jvm("0\n"); });
  const Result<void> asked = ask_for_perf_map(jvm.pid());
  EXPECT_TRUE(asked) << asked.error().message;
  EXPECT_FALSE(std::filesystem::exists("/tmp/.attach_pid" + std::to_string(jvm.pid())));
}

TEST(AskRuntime, ReportsTheErrorOfTheJvm) {
  struct Case {
    const char* answer;
    ErrorCode code;
    const char* message;
  };
  const Case cases[] = {
      {"1\njava.lang.IllegalArgumentException: Unknown diagnostic command\n",
       ErrorCode::kUnsupported, "older than Java 17"},
      {"1\nno space\nsecond line\n", ErrorCode::kIo, "refused: no space"},
      {"", ErrorCode::kIo, "refused"},
      {"nonsense", ErrorCode::kIo, "refused"},
  };
  for (const Case& c : cases) {
    const Impostor jvm("libjvm.so", [&c] { answer_as_jvm(c.answer); });
    const Result<void> asked = ask_for_perf_map(jvm.pid());
    ASSERT_FALSE(asked) << c.answer;
    EXPECT_EQ(asked.error().code, c.code) << c.answer;
    EXPECT_THAT(asked.error().message, HasSubstr(c.message));
  }
}

TEST(AskRuntime, SendsNoSignalToAProcessThatIsNotHotSpot) {
  struct Case {
    const char* mapped;
    const char* message;
  };
  const Case cases[] = {{"libother.so", "does not run a HotSpot JVM"},
                        {"libjvm.so.debug", "does not run a HotSpot JVM"},
                        {"libjvm.so", "can't be attached to"}};  // it does not catch the signal
  for (const Case& c : cases) {
    const Impostor other(c.mapped, nullptr);
    const Result<void> asked = ask_for_perf_map(other.pid(), kShort);
    ASSERT_FALSE(asked) << c.mapped;
    EXPECT_EQ(asked.error().code, ErrorCode::kUnsupported) << c.mapped;
    EXPECT_THAT(asked.error().message, HasSubstr(c.message));
    EXPECT_TRUE(other.lives()) << c.mapped;
  }
}

TEST(AskRuntime, TimesOutIfTheJvmOpensNoSocketOrDoesNotAnswer) {
  const Impostor silent("libjvm.so", [] {});
  const Result<void> asked = ask_for_perf_map(silent.pid(), kShort);
  ASSERT_FALSE(asked);
  EXPECT_EQ(asked.error().code, ErrorCode::kTimeout);

  const Impostor deaf("libjvm.so", [] { listen_at(socket_of(::getpid())); });
  const Result<void> waited = ask_for_perf_map(deaf.pid(), kShort);
  ASSERT_FALSE(waited);
  EXPECT_EQ(waited.error().code, ErrorCode::kTimeout);
}

TEST(AskRuntime, RefusesTheSocketOfAnotherProcess) {
  const Impostor jvm("libjvm.so", [] {});
  const UniqueFd ours(listen_at(socket_of(jvm.pid())));
  const Result<void> asked = ask_for_perf_map(jvm.pid(), kShort);
  ASSERT_FALSE(asked);
  EXPECT_EQ(asked.error().code, ErrorCode::kPermissionDenied);
}

TEST(AskRuntime, RefusesTheProcessOfAnotherUser) {
  ASSERT_EQ(::geteuid(), 0U) << "needs root, to become another user";
  const Impostor jvm("libjvm.so", [] {});
  ASSERT_EQ(::seteuid(65534), 0);
  const Result<void> asked = ask_for_perf_map(jvm.pid(), kShort);
  ASSERT_EQ(::seteuid(0), 0);
  ASSERT_FALSE(asked);
  EXPECT_EQ(asked.error().code, ErrorCode::kPermissionDenied);
  EXPECT_THAT(asked.error().message, HasSubstr("belongs to another user"));
  EXPECT_TRUE(jvm.lives());
}

TEST(AskRuntime, FailsForAProcessThatHasEnded) {
  const pid_t child = ::fork();
  if (child == 0) ::_exit(0);
  ::waitpid(child, nullptr, 0);
  const Result<void> asked = ask_for_perf_map(child);
  ASSERT_FALSE(asked);
  EXPECT_EQ(asked.error().code, ErrorCode::kNotFound);
}

TEST(AskRuntime, RecordAsksBeforeItsSessionAndAtItsEnd) {
  const TemporaryDirectory directory;
  const std::filesystem::path count = directory.path() / "count";
  const Impostor jvm("libjvm.so", [&] { answer_and_count(count); });
  FakeService service;
  give_a_result(service);
  std::map<std::string, std::uint64_t> answers_before;
  service.on_call = [&] {
    answers_before[service.calls.back()] = std::filesystem::file_size(count);
  };
  const RunningServer server(service);
  const Ran ran = run_with_socket(
      server.socket(), {"record", "--ask-runtime", "--pid", std::to_string(jvm.pid()), "-d", "1s",
                        "-o", directory.path() / "out"});
  EXPECT_EQ(ran.code, 0) << ran.err;
  EXPECT_EQ(answers_before["start"], 1U);
  EXPECT_EQ(answers_before["stop 5f2c01ab"], 2U);
  ASSERT_EQ(service.started.size(), 1U);
  EXPECT_EQ(service.started[0].duration_ms, 0U) << "or the session may end before the answer";
}

}  // namespace
}  // namespace profd
