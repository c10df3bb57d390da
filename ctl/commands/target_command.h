// A command that is there, with a pid, but waits to be let go, so that it can be profiled from its
// first instruction.

#pragma once

#include <signal.h>
#include <sys/types.h>

#include <optional>
#include <string>
#include <vector>

#include "formats/base/result.h"
#include "formats/base/unique_fd.h"

namespace profd {

class Command {
 public:
  // Forks. The child keeps profctl's process group and terminal and gets `signal_mask`. `arguments`
  // is not empty; its first is looked up in PATH.
  static Result<Command> fork(const std::vector<std::string>& arguments,
                              const sigset_t& signal_mask);

  Command(Command&& other) noexcept;
  Command& operator=(Command&&) = delete;

  // A command that was not let go ends without having run; one that was is left alone.
  ~Command();

  [[nodiscard]] pid_t pid() const { return pid_; }

  // Returns once the exec is done. kNotFound: there is no such command. kIo: it can't be executed.
  Result<void> let_go();

  // Its exit status, or 128 and the signal that killed it; nothing while it runs.
  std::optional<int> status();
  int wait();

  // Nothing happens when it has ended.
  void send(int signal);

 private:
  Command(pid_t pid, std::string name, UniqueFd gate, UniqueFd failure);

  pid_t pid_;
  std::string name_;
  UniqueFd gate_;     // a byte lets the child go, the end ends it
  UniqueFd failure_;  // errno of an exec that failed, else the end
  std::optional<int> status_;
};

}  // namespace profd
