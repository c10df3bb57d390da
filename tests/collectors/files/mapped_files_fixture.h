// Files of one page that a test maps, and their opens.

#pragma once

#include <fcntl.h>
#include <poll.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cstdint>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <memory>
#include <string>

#include <gtest/gtest.h>

#include "collectors/files/mapped_files.h"
#include "tests/collectors/users_mounts.h"

namespace profd::test {

// What the open of a file leads to.
inline std::shared_ptr<const MappedFile> opened_by(
    MappedFiles& files, const MappingView& mapping,
    MappedFiles::Clock::time_point now = MappedFiles::Clock::now()) {
  auto file = files.find_or_open(mapping, now);
  while (file && file->is_opening) {
    pollfd ready{.fd = files.wake_fd(), .events = POLLIN, .revents = 0};
    ::poll(&ready, 1, 5);
    files.take_opened();
    file = files.find(mapping.file);
  }
  return file;
}

// A file of one page in a directory of its own, mapped by this process.
class MappedFilesTest : public testing::Test {
 protected:
  void SetUp() override {
    std::string pattern = std::filesystem::temp_directory_path() / "mapped_files_XXXXXX";
    ASSERT_NE(::mkdtemp(pattern.data()), nullptr);
    directory_ = pattern;
    map_file("object file");
  }
  void TearDown() override {
    ::munmap(memory_, kPage);
    std::filesystem::remove_all(directory_);
  }

  void map_file(const std::string& name) {
    path_ = directory_ / name;
    std::ofstream(path_) << std::string(kPage, 'x');
    const UniqueFd fd(::open(path_.c_str(), O_RDONLY | O_CLOEXEC));
    memory_ = ::mmap(nullptr, kPage, PROT_READ | PROT_EXEC, MAP_PRIVATE, fd.get(), 0);
    ASSERT_NE(memory_, MAP_FAILED);
    struct stat status {};
    ASSERT_EQ(::fstat(fd.get(), &status), 0);
    view_.process.tgid = static_cast<std::uint32_t>(::getpid());
    view_.start = reinterpret_cast<std::uint64_t>(memory_);
    view_.end = view_.start + kPage;
    view_.file = file_key_of(status);
    view_.file.generation = 7;
  }

  // A process of a user who has mounted an overlay of `lower`, with its file `name` at memory_.
  UsersMounts map_on_overlay(const std::string& lower, const std::string& name) {
    const std::string overlay = directory_ / "overlay";
    const std::string other = directory_ / "other";
    std::filesystem::create_directory(overlay);
    std::filesystem::create_directory(other);
    return UsersMounts([&] {
      if (!mount_overlay(lower, other, overlay)) return false;
      const int fd = ::open((overlay + "/" + name).c_str(), O_RDONLY | O_CLOEXEC);
      return ::mmap(memory_, kPage, PROT_READ, MAP_PRIVATE | MAP_FIXED, fd, 0) == memory_ &&
             ::close(fd) == 0;
    });
  }

  // The path's components as the kernel sends them.
  std::string names() const {
    std::string text;
    for (std::filesystem::path p = path_; p.has_relative_path(); p = p.parent_path()) {
      text += p.filename().string() + '\0';
    }
    return text;
  }

  static constexpr std::size_t kPage = 4096;
  std::filesystem::path directory_;
  std::filesystem::path path_;
  void* memory_ = MAP_FAILED;
  MappingView view_{};
  MappedFiles files_;
};

}  // namespace profd::test
