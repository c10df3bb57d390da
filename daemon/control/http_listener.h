// The UNIX stream socket that the control server listens on, and who is at the other end of a
// connection.

#pragma once

#include <sys/types.h>

#include <filesystem>
#include <optional>

#include "daemon/control/service.h"
#include "formats/base/result.h"
#include "formats/base/unique_fd.h"

namespace profd {

// Listens from open() on; the path is gone when the object is, unless another daemon took it over
// meanwhile.
class HttpListener {
 public:
  // Makes the directory (0755) when it is absent. The path shows either the former socket or one
  // that is listened on (mode 0666), never one in between. kBusy: someone listens there already,
  // and the error names their pid. A file that is no socket is left alone.
  static Result<HttpListener> open(const std::filesystem::path& path);

  HttpListener(HttpListener&& other) noexcept;
  HttpListener& operator=(HttpListener&&) = delete;
  ~HttpListener();

  // Takes a socket that someone else made and keeps beside us (socket_activation.h), so the path is
  // theirs and stays. kInvalidArgument: it is no UNIX stream socket that is listened on.
  static Result<HttpListener> adopt(UniqueFd socket);

  // Borrowed, non-blocking.
  [[nodiscard]] int fd() const { return fd_.get(); }

 private:
  HttpListener(UniqueFd fd, std::filesystem::path path, dev_t device, ino_t inode);

  UniqueFd fd_;
  std::filesystem::path path_;  // empty: not ours
  dev_t device_;
  ino_t inode_;
};

// The group whose members may do everything; none when the host has no such group.
[[nodiscard]] std::optional<gid_t> find_privileged_group();

// The peer's credentials, as the kernel took them when it connected.
[[nodiscard]] Result<Caller> identify_caller(int connection, std::optional<gid_t> privileged_group);

}  // namespace profd
