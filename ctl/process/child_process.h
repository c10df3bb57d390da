// Starts child processes, reads what they write and waits for them.

#pragma once

#include <sys/types.h>

#include <chrono>
#include <optional>
#include <string>
#include <vector>

#include "formats/base/result.h"
#include "formats/base/unique_fd.h"

namespace profd {

struct ProgramOutput {
  int status = -1;  // as of wait_for_exit()
  std::string out;  // the first MiB of standard output
};

// Runs `arguments`, whose first is found in PATH, with standard input and standard error at
// /dev/null. kNotFound: there is no such program. kTimeout: it ran longer than `limit` and was
// killed.
[[nodiscard]] Result<ProgramOutput> run_program(std::vector<std::string> arguments,
                                                std::chrono::milliseconds limit);

// The argument vector of exec, which borrows `arguments`.
[[nodiscard]] std::vector<char*> argv_of(std::vector<std::string>& arguments);

// The exit status, or 128 plus the signal that killed the process, of a status of waitpid().
[[nodiscard]] int exit_status_of(int wait_status);

// Waits for a child; returns its exit status.
int wait_for_exit(pid_t pid);

struct Pipe {
  UniqueFd read_end;
  UniqueFd write_end;
};
[[nodiscard]] Result<Pipe> make_pipe();

// Reads a pipe or socket until the other end closes it. Bytes after the first `max_bytes` are
// discarded. Nothing: `deadline` passed first.
[[nodiscard]] std::optional<std::string> read_until_closed(
    int fd, std::size_t max_bytes,
    std::optional<std::chrono::steady_clock::time_point> deadline = std::nullopt);

}  // namespace profd
