// The history's names of a JVM that was started without any switch: `profctl ask-runtimes` asks it,
// as the service does each minute.

#include <algorithm>
#include <chrono>
#include <filesystem>
#include <fstream>
#include <string>
#include <system_error>
#include <utility>

#include <gmock/gmock.h>

#include "daemon/history/window_file.h"
#include "tests/e2e/python_stacks.h"

namespace profd::e2e {
namespace {

namespace fs = std::filesystem;
using ::testing::HasSubstr;

bool has_java_names(const Daemon& daemon, pid_t pid) {
  std::error_code absent;
  for (const auto& entry : fs::directory_iterator(daemon.state() / "windows", absent)) {
    const std::string name = entry.path().filename();
    if (name.starts_with('.') || !name.ends_with(kWindowFileEnd)) continue;
    const PythonSamples samples = PythonSamples::read(entry.path()).of_pid(std::to_string(pid));
    for (const PythonSample& sample : samples.all()) {
      const bool is_named = std::ranges::any_of(sample.names, [](const std::string& one) {
        return one.find("Busy") != std::string::npos && one.find("fib") != std::string::npos;
      });
      if (is_named) return true;
    }
  }
  return false;
}

TEST(AskRuntimesTest, WindowsHaveTheNamesOfAJvmThatWasAsked) {
  const TemporaryDirectory directory;
  const fs::path source = fs::path(SOURCE_DIRECTORY) / "tests/e2e/programs/Busy.java";
  const Ended compiled = run({"javac", "-J-XX:-UsePerfData", "-d", directory.path(), source});
  ASSERT_EQ(compiled.status, 0) << compiled.err;
  const fs::path config = directory.path() / "profd.toml";
  std::ofstream(config) << "[continuous]\nenabled = true\nwindow = \"2s\"\nfrequency = 99\n"
                           "ask_runtime = true\n";
  Daemon::Options options;
  options.arguments = {"--config", config};
  const Daemon daemon(std::move(options));
  const Process java({"java", "-XX:-UsePerfData", "-cp", directory.path(), "Busy", "3600"});
  Ended asked;
  EXPECT_TRUE(eventually(
      [&] {
        asked = daemon.profctl({"ask-runtimes", "--once"});
        return asked.out.find("1 JVM has written") != std::string::npos;
      },
      std::chrono::seconds(60)))
      << asked.out << asked.err;
  EXPECT_THAT(asked.out, HasSubstr(std::to_string(java.pid())));
  EXPECT_TRUE(
      eventually([&] { return has_java_names(daemon, java.pid()); }, std::chrono::seconds(60)));
  std::error_code ignored;
  fs::remove("/tmp/perf-" + std::to_string(java.pid()) + ".map", ignored);
  fs::remove("/tmp/.java_pid" + std::to_string(java.pid()), ignored);
}

}  // namespace
}  // namespace profd::e2e
