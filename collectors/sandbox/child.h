// A sandboxed child of the daemon, the child's side: the running program started again with one
// argument. It drops its privileges before it reads anything, and has no descriptor but
// /dev/null, stderr and its end of a socket pair.

#pragma once

#include <chrono>
#include <functional>
#include <initializer_list>
#include <string>
#include <string_view>
#include <vector>

#include "collectors/sandbox/packets.h"
#include "collectors/sandbox/privileges.h"
#include "formats/base/result.h"
#include "formats/base/unique_fd.h"

namespace profd::sandbox {

struct ChildKind {
  std::string_view name;     // for messages; the program's argument is "--NAME"
  const char* process_name;  // as ps shows it; at most 15 bytes
  void (*run)(int socket);   // returns when the daemon has closed the socket
  LibraryRules rules{};
};

inline constexpr int kChildSocket = 3;

// Call first in the main() of every program that starts children, tests too. Returns if the
// program was not started as a child of one of these kinds; otherwise drops the privileges, runs
// the kind's function and exits: with 1 where the privileges could not be dropped.
void run_as_child(int argc, char** argv, std::initializer_list<ChildKind> kinds);

// The result of a request, or why there is none.
using Handler =
    std::function<Result<std::string>(const Request& request, const std::vector<UniqueFd>& files)>;

inline constexpr std::chrono::milliseconds kNoIdleLimit{-1};

// A ChildKind's run() for requests that have one answer each. Memory that runs out is the answer
// kTooLarge; freed memory goes back to the kernel after each answer. Returns also when no request
// came for `idle_limit`.
void serve_requests(int socket, const Handler& handle,
                    std::chrono::milliseconds idle_limit = kNoIdleLimit);

}  // namespace profd::sandbox
