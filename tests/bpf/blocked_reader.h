#pragma once

#include <sys/syscall.h>
#include <unistd.h>

#include <array>
#include <atomic>
#include <chrono>
#include <cstdint>
#include <fstream>
#include <string>
#include <thread>

#include <gtest/gtest.h>

namespace profd::test {

// A thread that reads from an empty pipe until it is woken.
class BlockedReader {
 public:
  BlockedReader() {
    EXPECT_EQ(::pipe(pipe_.data()), 0);
    thread_ = std::thread([this] {
      tid_ = static_cast<std::uint32_t>(::gettid());
      char byte = 0;
      EXPECT_EQ(::read(pipe_[0], &byte, 1), 1);
    });
    while (!sleeps()) std::this_thread::sleep_for(std::chrono::milliseconds(1));
  }
  BlockedReader(const BlockedReader&) = delete;
  BlockedReader& operator=(const BlockedReader&) = delete;
  ~BlockedReader() {
    if (thread_.joinable()) wake();
    for (const int fd : pipe_) ::close(fd);
  }

  void wake() {
    EXPECT_EQ(::write(pipe_[1], "x", 1), 1);
    thread_.join();
  }
  [[nodiscard]] std::uint32_t tid() const { return tid_; }

 private:
  // In the system call, by its number in /proc.
  [[nodiscard]] bool sleeps() const {
    if (tid_ == 0) return false;
    std::ifstream file("/proc/self/task/" + std::to_string(tid_.load()) + "/syscall");
    std::string call;
    return file >> call && call == std::to_string(SYS_read);
  }

  std::array<int, 2> pipe_{};
  std::atomic<std::uint32_t> tid_ = 0;
  std::thread thread_;
};

}  // namespace profd::test
