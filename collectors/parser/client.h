// The daemon's side of the parser: asks, waits within the limits, checks the answer, and replaces a
// child that misbehaves.

#pragma once

#include <sys/types.h>

#include <functional>
#include <memory>

#include "collectors/parser/parser.h"
#include "formats/base/result.h"

namespace profd::parser {

// Makes a process that serves requests on the descriptor given, which stays the caller's.
using SpawnChild = std::function<Result<pid_t>(int socket)>;

// The running program again, with the socket as descriptor 3.
[[nodiscard]] Result<pid_t> spawn_this_program(int socket);

[[nodiscard]] Result<std::unique_ptr<Parser>> start_client(const ParserLimits& limits,
                                                           SpawnChild spawn);

}  // namespace profd::parser
