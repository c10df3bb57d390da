// The fixture of tests in which a process writes a hostile jitdump.

#pragma once

#include <unistd.h>

#include <memory>
#include <string>

#include <gtest/gtest.h>

#include "collectors/jit/processes.h"
#include "tests/collectors/jit/runtime.h"

namespace profd::test {

// A jitdump in the working directory of its process.
class HostileDump : public testing::Test {
 protected:
  void SetUp() override {
    auto started = JitProcesses::start({});
    ASSERT_TRUE(started) << started.error().message;
    processes_ = std::move(*started);
    path_ = directory_ / ("jit-" + std::to_string(runtime_.pid()) + ".dump");
  }

  void write(const std::string& bytes) {
    write_file(path_, bytes);
    processes_->on_mapping(jit_code_of(runtime_.key()));
  }
  [[nodiscard]] pid_t pid() const { return runtime_.pid(); }
  [[nodiscard]] bool is_named(const std::string& name) {
    return wait_for(*processes_,
                    [&] { return name_at(*processes_, runtime_.key(), 0x10000) == name; });
  }
  [[nodiscard]] bool is_malformed_by(const std::string& reason) {
    return wait_for(*processes_, [&] { return processes_->stats().malformed.contains(reason); });
  }
  [[nodiscard]] bool comes_to_be_refused(JitRefusal reason) {
    return wait_for(*processes_, [&] { return refused(*processes_, reason) != 0; });
  }

  PrivateDirectory directory_;
  Runtime runtime_{[this] { return ::chdir(directory_.path().c_str()) == 0; }};
  std::string path_;
  std::unique_ptr<JitProcesses> processes_;
};

}  // namespace profd::test
