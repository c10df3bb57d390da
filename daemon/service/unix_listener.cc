#include "daemon/service/unix_listener.h"

#include <fcntl.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/un.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <string>
#include <utility>

#include "daemon/storage/file_io.h"

namespace profd {
namespace {

namespace fs = std::filesystem;

constexpr mode_t kDirectoryMode = 0755;
constexpr int kBacklog = 1024;
constexpr int kPassRights = 83;  // SO_PASSRIGHTS, which accepted sockets inherit

Result<sockaddr_un> address_of(const fs::path& path) {
  sockaddr_un address{};
  address.sun_family = AF_UNIX;
  const std::string& text = path.native();
  if (text.empty() || text.size() >= sizeof(address.sun_path)) {
    return fail(ErrorCode::kInvalidArgument,
                "the socket's path \"" + text + "\" is empty or longer than 107 bytes");
  }
  std::ranges::copy(text, address.sun_path);
  return address;
}

const sockaddr* generic(const sockaddr_un& address) {
  return reinterpret_cast<const sockaddr*>(&address);  // as the sockets API requires
}

Result<UniqueFd> new_socket(int type) {
  UniqueFd fd(::socket(AF_UNIX, type | SOCK_NONBLOCK | SOCK_CLOEXEC, 0));
  if (!fd.valid()) return fail_errno("could not make a socket");
  return fd;
}

Error already_running(const fs::path& path, const std::string& process) {
  return fail(ErrorCode::kBusy, process + " listens on " + path.string() + " already",
              "stop it first, or give another --socket and --state-dir");
}

// A process that accepts connections is alive. The kernel knows the pid that called listen().
Result<void> refuse_live(const fs::path& path, const sockaddr_un& address, int type) {
  const auto probe = new_socket(type);
  if (!probe) return probe.error();
  if (::connect(probe->get(), generic(address), sizeof(address)) != 0) {
    if (errno == EAGAIN) return already_running(path, "a busy process");  // its backlog is full
    if (errno == ECONNREFUSED || errno == ENOENT) return {};
    return fail_errno("could not connect to " + path.string());
  }
  ucred peer{};
  socklen_t size = sizeof(peer);
  if (::getsockopt(probe->get(), SOL_SOCKET, SO_PEERCRED, &peer, &size) != 0 || peer.pid == 0) {
    return already_running(path, "another process");
  }
  return already_running(path, "process " + std::to_string(peer.pid));
}

Result<void> check_place(const fs::path& path, int type) {
  const auto address = address_of(path);
  if (!address) return address.error();
  struct stat info {};
  if (::lstat(path.c_str(), &info) != 0) {
    if (errno == ENOENT) return {};
    return fail_errno("could not stat " + path.string());
  }
  if (S_ISSOCK(info.st_mode)) return refuse_live(path, *address, type);
  return fail(ErrorCode::kInvalidArgument, path.string() + " exists and is not a socket",
              "remove it, or give another --socket");
}

Result<void> listen_at(int fd, const fs::path& path, const SocketAccess& access) {
  const auto address = address_of(path);
  if (!address) return address.error();
  ::unlink(path.c_str());
  constexpr auto kSameUser = static_cast<uid_t>(-1);
  if (::bind(fd, generic(*address), sizeof(*address)) != 0 ||
      (access.group && ::chown(path.c_str(), kSameUser, *access.group) != 0) ||
      ::chmod(path.c_str(), access.mode) != 0 || ::listen(fd, kBacklog) != 0) {
    return fail_errno("could not listen on " + path.string());
  }
  return {};
}

// -1: `fd` is not a socket.
int option_of(int fd, int option) {
  int value = -1;
  socklen_t size = sizeof(value);
  return ::getsockopt(fd, SOL_SOCKET, option, &value, &size) == 0 ? value : -1;
}

}  // namespace

Result<UnixListener> UnixListener::open(const fs::path& path, int type,
                                        const SocketAccess& access) {
  if (auto made = make_directory(path.parent_path(), kDirectoryMode); !made) return made.error();
  if (auto free = check_place(path, type); !free) return free.error();
  auto fd = new_socket(type);
  if (!fd) return fd.error();
  const fs::path temporary = path.string() + "." + std::to_string(::getpid());
  if (auto listening = listen_at(fd->get(), temporary, access); !listening)
    return listening.error();
  struct stat info {};
  if (::lstat(temporary.c_str(), &info) != 0 || ::rename(temporary.c_str(), path.c_str()) != 0) {
    const Error error = fail_errno("could not put the socket at " + path.string());
    ::unlink(temporary.c_str());
    return error;
  }
  return UnixListener(std::move(*fd), path, info.st_dev, info.st_ino);
}

Result<UnixListener> UnixListener::adopt(UniqueFd socket) {
  if (option_of(socket.get(), SO_DOMAIN) != AF_UNIX ||
      option_of(socket.get(), SO_TYPE) != SOCK_STREAM ||
      option_of(socket.get(), SO_ACCEPTCONN) != 1) {
    return fail(ErrorCode::kInvalidArgument,
                "the passed socket is not a listening UNIX stream socket",
                "in the socket unit, ListenStream= must be a path, and Accept=no");
  }
  const int flags = ::fcntl(socket.get(), F_GETFL);
  if (flags < 0 || ::fcntl(socket.get(), F_SETFL, flags | O_NONBLOCK) != 0) {
    return fail_errno("could not make the passed socket non-blocking");
  }
  return UnixListener(std::move(socket), {}, 0, 0);
}

UnixListener::~UnixListener() {
  struct stat info {};
  if (path_.empty() || ::lstat(path_.c_str(), &info) != 0) return;
  if (info.st_dev == device_ && info.st_ino == inode_) ::unlink(path_.c_str());
}

void refuse_descriptors(int listener) {
  const int no = 0;
  (void)::setsockopt(listener, SOL_SOCKET, kPassRights, &no, sizeof no);
}

}  // namespace profd
