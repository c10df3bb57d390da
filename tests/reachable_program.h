// A program of the build for a child process of another user, who may not reach the build
// directory: below /root, which has mode 0700, no other user can run anything.

#pragma once

#include <filesystem>
#include <string>
#include <system_error>

#include <stdlib.h>

namespace profd::test {

// A directory that every user can search. Removed with its content when the test program ends.
class PublicDirectory {
 public:
  PublicDirectory() {
    std::string pattern = std::filesystem::temp_directory_path() / "profd_programs_XXXXXX";
    if (::mkdtemp(pattern.data()) == nullptr) return;
    path_ = pattern;
    std::filesystem::permissions(path_, std::filesystem::perms(0755));
  }
  PublicDirectory(const PublicDirectory&) = delete;
  PublicDirectory& operator=(const PublicDirectory&) = delete;
  ~PublicDirectory() {
    std::error_code ignored;
    if (!path_.empty()) std::filesystem::remove_all(path_, ignored);
  }
  [[nodiscard]] const std::filesystem::path& path() const { return path_; }

 private:
  std::filesystem::path path_;
};

// The path of a copy of a program or script of this repository, which has the same name and is made
// at the first call. Commands without a path, such as curl and node, and those of the host are
// returned as they are.
inline std::string reachable_program(const std::string& program) {
  if (!program.starts_with('/') || program.starts_with("/usr/")) return program;
  static const PublicDirectory directory;
  const std::filesystem::path copy = directory.path() / std::filesystem::path(program).filename();
  if (!std::filesystem::exists(copy)) {
    std::filesystem::copy_file(program, copy);
    std::filesystem::permissions(copy, std::filesystem::perms(0755));
  }
  return copy;
}

}  // namespace profd::test
