// A command that has a pid but does not run yet, so that a session can profile it from its first
// instruction.

#pragma once

#include <signal.h>
#include <sys/types.h>

#include <optional>
#include <string>
#include <vector>

#include "formats/base/result.h"
#include "formats/base/unique_fd.h"

namespace profd {

class HeldCommand {
 public:
  // Where the standard output of the command goes.
  enum class Output { kStandardOutput, kStandardError };

  // Forks a child that waits for resume(). It keeps the process group and terminal of profctl and
  // gets `signal_mask`. `arguments` is not empty; its first is found in PATH.
  static Result<HeldCommand> fork(const std::vector<std::string>& arguments,
                                  const sigset_t& signal_mask, Output output);

  HeldCommand(HeldCommand&& other) noexcept;
  HeldCommand& operator=(HeldCommand&&) = delete;

  // A command that was never resumed ends without having run. One that was resumed continues.
  ~HeldCommand();

  [[nodiscard]] pid_t pid() const { return pid_; }

  // Returns after the exec of the command. kNotFound: there is no such command. kIo: it can't be
  // executed.
  Result<void> resume();

  // The exit status, or 128 plus the signal that killed the command; nothing while it runs.
  std::optional<int> status();
  int wait();

  // Sends a signal, unless the command has ended.
  void send(int signal);

 private:
  HeldCommand(pid_t pid, std::string name, UniqueFd channel)
      : pid_(pid), name_(std::move(name)), channel_(std::move(channel)) {}

  pid_t pid_;  // 0: moved from
  std::string name_;
  UniqueFd channel_;  // to the child, until resume()
  std::optional<int> status_;
};

}  // namespace profd
