// ELF files made of the tests' own ones, by binutils or byte by byte.

#pragma once

#include <fcntl.h>

#include <functional>
#include <string>

#include <gtest/gtest.h>

#include "formats/base/unique_fd.h"
#include "tests/formats/readers.h"

namespace profd::test {

inline UniqueFd open_file(const std::string& path) {
  UniqueFd fd(::open(path.c_str(), O_RDONLY | O_CLOEXEC));
  EXPECT_TRUE(fd.valid()) << path;
  return fd;
}

class ChangedFilesTest : public testing::Test {
 protected:
  // Runs a binutils program: {} is replaced by the new file's path.
  [[nodiscard]] std::string made_by(const std::string& command, const std::string& name) const {
    std::string path = scratch_.path() / name;
    std::string filled = command;
    filled.replace(filled.find("{}"), 2, path);
    const std::string output = output_of(filled);
    return path;
  }

  [[nodiscard]] std::string changed(const std::string& path,
                                    const std::function<void(std::string&)>& change) const {
    std::string bytes = read_file(path);
    change(bytes);
    return scratch_.write("changed", bytes);
  }

  ScratchDirectory scratch_;
};

}  // namespace profd::test
