// What another program says of bytes: an independent decoder of what profctl ship sends.

#pragma once

#include <unistd.h>

#include <cstdio>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <string>
#include <string_view>

#include <gtest/gtest.h>

namespace profd::test {

// What a shell command prints that reads `bytes` as its standard input. A failing one fails the
// test.
inline std::string output_for(std::string_view bytes, const std::string& command) {
  std::string path = std::filesystem::temp_directory_path() / "oracle-XXXXXX";
  const int fd = ::mkstemp(path.data());
  EXPECT_GE(fd, 0);
  std::ofstream(path, std::ios::binary) << bytes;
  std::string output;
  std::FILE* const pipe = ::popen((command + " <" + path + " 2>&1").c_str(), "r");
  EXPECT_NE(pipe, nullptr);
  if (pipe != nullptr) {
    for (int c = std::fgetc(pipe); c != EOF; c = std::fgetc(pipe)) {
      output += static_cast<char>(c);
    }
    EXPECT_EQ(::pclose(pipe), 0) << command << "\n" << output;
  }
  if (fd >= 0) ::close(fd);
  std::filesystem::remove(path);
  return output;
}

}  // namespace profd::test
