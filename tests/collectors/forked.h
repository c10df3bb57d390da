// Runs a function in a child process, and tells how that ended.

#pragma once

#include <sys/wait.h>
#include <unistd.h>

#include <csignal>
#include <functional>

namespace profd::test {

// The function's result is the exit status. Ended after ten seconds whatever it does.
inline pid_t fork_into(const std::function<int()>& function) {
  const pid_t child = ::fork();
  if (child == 0) {
    ::alarm(10);
    ::_exit(function());
  }
  return child;
}

// As waitpid() has it.
inline int end_of(pid_t child) {
  int status = -1;
  return ::waitpid(child, &status, 0) == child ? status : -1;
}

}  // namespace profd::test
