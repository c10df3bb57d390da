#include "tests/collectors/xray/instrumented_app.h"

#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <sys/wait.h>
#include <unistd.h>

#include <stdexcept>

#include <gtest/gtest.h>

namespace profd::test {
namespace {

constexpr int kLineLimitMs = 30'000;

struct Pipe {
  Pipe() {
    int ends[2];
    if (::pipe2(ends, O_CLOEXEC) != 0) throw std::runtime_error("no pipe");
    read.reset(ends[0]);
    write.reset(ends[1]);
  }
  UniqueFd read;
  UniqueFd write;
};

}  // namespace

std::filesystem::path InstrumentedApp::program(const std::string& name) {
  return std::filesystem::path(INSTRUMENTED_DIRECTORY) / name;
}

InstrumentedApp::InstrumentedApp(const std::filesystem::path& socket,
                                 const std::vector<std::string>& arguments,
                                 const std::string& name) {
  Pipe in;
  Pipe out;
  std::vector<std::string> words = {program(name).string()};
  words.insert(words.end(), arguments.begin(), arguments.end());
  std::vector<char*> argv;
  for (std::string& word : words) argv.push_back(word.data());
  argv.push_back(nullptr);
  std::string variable = "PROFD_XRAY_SOCKET=" + socket.string();
  char* environment[] = {variable.data(), nullptr};
  pid_ = ::fork();
  if (pid_ == 0) {
    ::dup2(in.read.get(), 0);
    ::dup2(out.write.get(), 1);
    ::execve(argv[0], argv.data(), environment);
    ::_exit(127);
  }
  input_ = std::move(in.write);
  output_ = std::move(out.read);
  EXPECT_EQ(line(), "ready");
}

InstrumentedApp::~InstrumentedApp() {
  if (pid_ <= 0) return;
  signal(SIGKILL);
  wait();
}

std::string InstrumentedApp::line() {
  for (;;) {
    if (const auto end = read_ahead_.find('\n'); end != std::string::npos) {
      const std::string first = read_ahead_.substr(0, end);
      read_ahead_.erase(0, end + 1);
      return first;
    }
    pollfd readable{.fd = output_.get(), .events = POLLIN, .revents = 0};
    char bytes[256];
    if (::poll(&readable, 1, kLineLimitMs) <= 0) return {};
    const ssize_t got = ::read(output_.get(), bytes, sizeof bytes);
    if (got <= 0) return {};
    read_ahead_.append(bytes, static_cast<std::size_t>(got));
  }
}

void InstrumentedApp::go() { EXPECT_EQ(::write(input_.get(), "\n", 1), 1); }

std::uint64_t InstrumentedApp::rounds_done() {
  const std::string said = line();
  EXPECT_TRUE(said.starts_with("done ")) << said;
  return said.size() > 5 ? std::stoull(said.substr(5)) : 0;
}

int InstrumentedApp::end() {
  input_.reset();
  return wait();
}

void InstrumentedApp::signal(int number) const { ::kill(pid_, number); }

int InstrumentedApp::wait() {
  int status = -1;
  ::waitpid(pid_, &status, 0);
  pid_ = -1;
  return status;
}

}  // namespace profd::test
