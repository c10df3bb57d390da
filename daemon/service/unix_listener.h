// A UNIX socket that the daemon listens on, at a path.

#pragma once

#include <sys/types.h>

#include <filesystem>
#include <optional>

#include "formats/base/result.h"
#include "formats/base/unique_fd.h"

namespace profd {

// Who may connect to a socket, as the file system enforces it.
struct SocketAccess {
  mode_t mode = 0666;
  std::optional<gid_t> group{};  // none: the daemon's own
};

// Removes the path when it is destroyed, unless another socket has replaced it.
class UnixListener {
 public:
  // Listens on a new socket of `type` (SOCK_STREAM, SOCK_SEQPACKET), and makes its directory (0755)
  // if it is absent. Nobody may connect before the socket has its mode and group. The path gets the
  // socket only when it listens, and a stale socket is replaced. kBusy: a process listens there
  // already, and the error names its pid. A file that is not a socket is left alone.
  static Result<UnixListener> open(const std::filesystem::path& path, int type,
                                   const SocketAccess& access = {});

  // Takes a stream socket that the service manager listens on, and whose path it removes.
  // kInvalidArgument: it is not one.
  static Result<UnixListener> adopt(UniqueFd socket);

  UnixListener(UnixListener&& other) noexcept = default;
  UnixListener& operator=(UnixListener&&) = delete;
  ~UnixListener();

  // Non-blocking. The listener keeps the path.
  [[nodiscard]] UniqueFd take_fd() { return std::move(fd_); }

 private:
  UnixListener(UniqueFd fd, std::filesystem::path path, dev_t device, ino_t inode)
      : fd_(std::move(fd)), path_(std::move(path)), device_(device), inode_(inode) {}

  UniqueFd fd_;
  std::filesystem::path path_;  // empty: the service manager's, or moved from
  dev_t device_;
  ino_t inode_;
};

// Makes the kernel refuse the descriptors that clients of a listening socket send, for connections
// that are made from now on. Does nothing before Linux 6.16.
void refuse_descriptors(int listener);

}  // namespace profd
