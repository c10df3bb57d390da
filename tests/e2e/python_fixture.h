// The fixture of tests that record Python programs.

#pragma once

#include <signal.h>

#include <filesystem>
#include <memory>
#include <string>

#include "tests/e2e/python_stacks.h"
#include "tests/e2e/recording.h"

namespace profd::e2e {

class PythonTest : public RecordingTest {
 protected:
  // A file is recognised when its code is first sampled, and not before: the stacks until then have
  // native frames only. What the tests compare begins behind that.
  void SetUp() override {
    Args command = test_python();
    command.insert(command.end(), {"-c", "while True: pass"});
    known_ = std::make_unique<Process>(command);
    const std::filesystem::path path = directory_.path() / "known.pb.gz";
    EXPECT_TRUE(eventually([&] {
      std::filesystem::remove(path);
      const Ended ended = daemon_.profctl(
          {"record", "-F", "499", "-d", "1s", "--pid", std::to_string(known_->pid()), "-o", path});
      return ended.status == 0 && PythonSamples::read(path).named_share() > 0.9;
    })) << "no Python function has a name\n"
        << daemon_.profctl({"status"}).out << daemon_.process().err();
    known_->signal(SIGSTOP);  // its file stays mapped
  }

  // One file with names, of a command.
  PythonSamples record_python(const Args& options, const Args& command,
                              const Process::Options& process = {}) {
    const std::filesystem::path path = next_file();
    Args args{"record"};
    args.insert(args.end(), options.begin(), options.end());
    args.insert(args.end(), {"-o", path, "--"});
    args.insert(args.end(), command.begin(), command.end());
    recorded_ = daemon_.profctl(args, process);
    EXPECT_EQ(recorded_.status, 0) << recorded_.err;
    EXPECT_EQ(daemon_.status().ledger.difference(), 0);
    return PythonSamples::read(path);
  }

  std::filesystem::path next_file() {
    return directory_.path() / (std::to_string(++files_) + ".pb.gz");
  }

 private:
  std::unique_ptr<Process> known_;
  int files_ = 0;
};

}  // namespace profd::e2e
