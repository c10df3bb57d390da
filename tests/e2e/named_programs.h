// What the tests of names of real programs share: programs that are compiled for the test, are
// recorded by profctl, and whose names in the file are compared with those of other tools.

#pragma once

#include <cstdint>
#include <filesystem>
#include <map>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "tests/collectors/symbolizer/corpus.h"
#include "tests/e2e/harness.h"

namespace profd::e2e {

// A location of the profile.
struct RecordedLocation {
  std::string mapping{};             // path of the file, or "[vdso]" and the like
  std::uint64_t address = 0;         // in that file
  test::OracleFrames frames{};       // as an oracle prints them: mangled names
  std::vector<std::string> names{};  // as they are shown, the innermost first
  std::int64_t leaf_samples = 0;

  // Of a file without a name for the address, as "[libfoo.so]".
  [[nodiscard]] bool has_name() const { return !names.front().starts_with('['); }
};
using RecordedLocations = std::vector<RecordedLocation>;

class NamedProgramsTest : public ::testing::Test {
 protected:
  // profd sees `debug_directory()` as /usr/lib/debug.
  NamedProgramsTest();

  [[nodiscard]] std::filesystem::path path(const std::string& name) const {
    return directory_.path() / name;
  }
  [[nodiscard]] std::filesystem::path debug_directory() const { return path("debug"); }
  [[nodiscard]] static std::filesystem::path source(const std::string& name);
  // Runs a shell command in the directory; it must succeed. Returns its output.
  std::string shell(const std::string& command) const;
  // Moves the debug information of a program to where profd finds it by the build id.
  void move_debug_file(const std::string& program) const;

  [[nodiscard]] const Daemon& daemon() const { return daemon_; }

  // The locations of all samples of a command.
  RecordedLocations record(const Args& command);

  // Compares each location of a program with llvm-symbolizer: functions, inlined ones, files and
  // lines. `oracle` is a file with the same code.
  static void expect_frames_of_llvm(const RecordedLocations& locations, const std::string& program,
                                    const std::string& oracle);
  // Compares each location of a file with the symbols that nm lists of `oracle`: a location has
  // one of the names whose range contains the address, and no name where there is none.
  void expect_names_of_nm(const RecordedLocations& locations, const std::string& file,
                          const std::string& oracle, const std::string& options = "") const;

 private:
  TemporaryDirectory directory_;
  Daemon daemon_;
};

// The locations of the file whose path ends so.
[[nodiscard]] RecordedLocations locations_of(const RecordedLocations& locations,
                                             const std::string& file);
// Of all leaves that have this function, inlined or not.
[[nodiscard]] std::int64_t samples_in(const RecordedLocations& locations,
                                      const std::string& function);
// Of the functions at all locations.
[[nodiscard]] std::set<std::string> names_in(const RecordedLocations& locations);

// The functions that /proc/kallsyms has, with the module, "" for the kernel itself, by the address
// where they or the padding before them start.
using KernelFunctions = std::map<std::uint64_t, std::set<std::pair<std::string, std::string>>>;
[[nodiscard]] KernelFunctions kernel_functions();

}  // namespace profd::e2e
