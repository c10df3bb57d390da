// Both pprofs and binutils as oracles: what they say of a profile or an image that we wrote.

#pragma once

#include <cstdint>
#include <filesystem>
#include <map>
#include <string>
#include <string_view>
#include <vector>

namespace profd::test {

// A directory of the test's own, gone with it.
class ScratchDirectory {
 public:
  ScratchDirectory();
  ScratchDirectory(const ScratchDirectory&) = delete;
  ScratchDirectory& operator=(const ScratchDirectory&) = delete;
  ~ScratchDirectory();

  [[nodiscard]] std::filesystem::path path() const { return path_; }
  // Returns the whole path of the file.
  std::filesystem::path write(const std::string& name, std::string_view bytes) const;

 private:
  std::filesystem::path path_;
};

[[nodiscard]] std::string read_file(const std::filesystem::path& path);

// What a shell command prints on stdout and stderr; a failing one fails the test.
[[nodiscard]] std::string output_of(const std::string& command);

struct Row {
  std::uint64_t flat = 0;  // samples
  std::uint64_t cumulative = 0;

  friend bool operator==(const Row&, const Row&) = default;
};

// A profile as a reader sees it.
struct Report {
  std::uint64_t total = 0;
  std::map<std::string, Row> rows;  // by function
};

[[nodiscard]] Report go_report(const std::filesystem::path& profile);
[[nodiscard]] Report perl_report(const std::filesystem::path& profile);

// Functions by name, as nm lists them.
[[nodiscard]] std::map<std::string, std::uint64_t> nm_functions(const std::filesystem::path& file,
                                                                const std::string& options = "");

}  // namespace profd::test
