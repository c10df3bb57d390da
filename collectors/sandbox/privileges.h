// Drops all that a process may do, except to compute and to read and write what it has open.
//
// Only a daemon of root can change the root directory and the user. The shipped unit runs it as the
// user profd without CAP_SYS_CHROOT, CAP_SETGID and CAP_SETUID: its children keep that user and its
// groups, and what protects the daemon and its files from them is seccomp, and Landlock besides.
//
// The steps are in the order in which they need each other: root directory, groups, user,
// capabilities, limits, Landlock, seccomp. Afterwards the kernel refuses to make a file, socket,
// process or executable memory and to trace a process; an attempt ends the process (SIGSYS).
// Where a kind of process allows for it (LibraryRules), an attempt to open a file is an error.

#pragma once

#include <cstdint>

#include "formats/base/result.h"

namespace profd::sandbox {

// The real uid of processes without privileges, where the daemon runs as root. In a range that is
// assigned to nobody (systemd's UIDS-GIDS.md), so that no other process has it: another process of
// the user `nobody` could kill them.
inline constexpr std::uint32_t kSandboxUser = 2'147'483'000;

struct SandboxLimits {
  std::uint64_t memory_bytes = 0;  // of address space, beyond what is in use at the call
  std::uint64_t file_bytes = 0;    // of any file that is written
};

// For a process that uses a library which maps files and opens some by itself, or that serves
// connections.
struct LibraryRules {
  // Of private memory that is no file's, beyond what is in use at the call; shared memory can't be
  // mapped then. 0: no limit besides that of the address space.
  std::uint64_t private_bytes = 0;
  // Calls that open a file, or ask by name whether it is there, return ENOENT.
  bool finds_no_files = false;
  // Also how many descriptors may be on their way in sockets while the process sends one: the
  // kernel adds up those of all processes of the user, so of all children, and the doors send many.
  std::uint64_t open_files = 4096;
  // Connections are accepted from a listening socket that the process was given, socket pairs made.
  bool serves_connections = false;
};

// For the calling process, which must have one thread. After an error some privileges may be
// gone: exit.
[[nodiscard]] Result<void> drop_privileges(const SandboxLimits& limits,
                                           const LibraryRules& rules = {});

}  // namespace profd::sandbox
