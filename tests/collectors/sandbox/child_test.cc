// A child that serves requests: when it ends, and what it keeps between two of them.

#include "collectors/sandbox/child.h"

#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

#include <chrono>
#include <cstdint>
#include <cstdlib>
#include <fstream>
#include <string>
#include <vector>

#include <gtest/gtest.h>

#include "collectors/sandbox/packets.h"
#include "formats/base/unique_fd.h"
#include "tests/collectors/forked.h"

namespace profd::test {
namespace {

using namespace std::chrono_literals;

struct Sockets {
  Sockets() {
    int both[2] = {-1, -1};
    EXPECT_EQ(::socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, both), 0);
    daemon.reset(both[0]);
    child.reset(both[1]);
  }
  UniqueFd daemon;
  UniqueFd child;
};

TEST(ServeRequestsTest, AnIdleChildEndsByItself) {
  const Sockets sockets;
  const int status = end_of(fork_into([&] {
    sandbox::serve_requests(
        sockets.child.get(),
        [](const auto&, const auto&) -> Result<std::string> { return std::string(); }, 50ms);
    return 17;
  }));
  ASSERT_TRUE(WIFEXITED(status));
  EXPECT_EQ(WEXITSTATUS(status), 17);
}

std::uint64_t anonymous_kib(pid_t pid) {
  std::ifstream status("/proc/" + std::to_string(pid) + "/status");
  for (std::string line; std::getline(status, line);) {
    if (line.starts_with("RssAnon:")) return std::stoull(line.substr(8));
  }
  return 0;
}

// Memory as parsers of files use it: many blocks below the size from which malloc() asks the kernel
// for each, and small ones between them that stay.
Result<std::string> use_64_mib(const sandbox::Request&, const std::vector<UniqueFd>&) {
  static std::vector<std::string> kept;
  std::vector<std::string> blocks;
  for (int i = 0; i < 1024; ++i) {
    blocks.emplace_back(std::size_t{64} << 10, 'x');
    kept.emplace_back(64, 'x');
  }
  return std::string();
}

TEST(ServeRequestsTest, MemoryOfARequestIsNotKeptForTheNext) {
#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__)
  GTEST_SKIP() << "the sanitizer's allocator keeps freed memory";
#endif
  Sockets sockets;
  const pid_t child = fork_into([&] {
    sockets.daemon.reset();
    sandbox::serve_requests(sockets.child.get(), use_64_mib);
    return 0;
  });
  const std::uint64_t before = anonymous_kib(child);
  ASSERT_TRUE(sandbox::send_packet(sockets.daemon.get(), sandbox::bytes_of(sandbox::Request{})));
  sandbox::Answer answer;
  const auto received = sandbox::receive_packet(sockets.daemon.get(), sandbox::buffer_of(answer));
  ASSERT_TRUE(received);
  EXPECT_EQ(answer.status, 0U);
  // It goes after the answer.
  std::uint64_t after = anonymous_kib(child);
  for (int i = 0; i < 100 && after > before + 4096; ++i) {
    ::usleep(50'000);
    after = anonymous_kib(child);
  }
  EXPECT_LE(after, before + 4096);
  sockets.daemon.reset();
  EXPECT_EQ(end_of(child), 0);
}

}  // namespace
}  // namespace profd::test
