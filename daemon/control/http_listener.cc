#include "daemon/control/http_listener.h"

#include <fcntl.h>
#include <grp.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/un.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <string>
#include <utility>
#include <vector>

namespace profd {
namespace {

namespace fs = std::filesystem;

constexpr mode_t kDirectoryMode = 0755;
constexpr mode_t kSocketMode = 0666;
constexpr int kBacklog = 1024;
constexpr const char* kPrivilegedGroup = "profd";

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
  return reinterpret_cast<const sockaddr*>(&address);  // the sockets API's own idiom
}

Result<UniqueFd> new_socket() {
  UniqueFd fd(::socket(AF_UNIX, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0));
  if (!fd.valid()) return fail_errno("could not make a socket");
  return fd;
}

Error already_running(const fs::path& path, const std::string& who) {
  return fail(ErrorCode::kBusy, who + " listens on " + path.string() + " already",
              "stop it first, or give another --socket and --state-dir");
}

// Whoever answers a connect is alive, and the kernel knows the pid that listened.
Result<void> refuse_live(const fs::path& path, const sockaddr_un& address) {
  const auto probe = new_socket();
  if (!probe) return probe.error();
  if (::connect(probe->get(), generic(address), sizeof(address)) != 0) {
    // A full backlog belongs to a live daemon too.
    if (errno == EAGAIN) return already_running(path, "a busy process");
    if (errno == ECONNREFUSED || errno == ENOENT) return {};
    return fail_errno("could not look at " + path.string());
  }
  ucred peer{};
  socklen_t size = sizeof(peer);
  if (::getsockopt(probe->get(), SOL_SOCKET, SO_PEERCRED, &peer, &size) != 0 || peer.pid == 0) {
    return already_running(path, "another process");
  }
  return already_running(path, "process " + std::to_string(peer.pid));
}

Result<void> check_place(const fs::path& path, const sockaddr_un& address) {
  struct stat info {};
  if (::lstat(path.c_str(), &info) != 0) {
    if (errno == ENOENT) return {};
    return fail_errno("could not look at " + path.string());
  }
  if (!S_ISSOCK(info.st_mode)) {
    return fail(ErrorCode::kInvalidArgument, path.string() + " is there and is no socket",
                "remove it, or give another --socket");
  }
  return refuse_live(path, address);
}

Result<void> make_directory(const fs::path& path) {
  const fs::path directory = path.parent_path();
  if (directory.empty()) return {};
  if (::mkdir(directory.c_str(), kDirectoryMode) == 0) {
    // The umask may have taken bits that callers need to reach the socket.
    if (::chmod(directory.c_str(), kDirectoryMode) == 0) return {};
  } else if (errno == EEXIST) {
    return {};
  }
  return fail_errno("could not make the directory " + directory.string());
}

// Only the socket that has `inode` still is ours to remove.
void remove_socket(const fs::path& path, dev_t device, ino_t inode) {
  struct stat info {};
  if (::lstat(path.c_str(), &info) != 0) return;
  if (info.st_dev == device && info.st_ino == inode) ::unlink(path.c_str());
}

Result<void> listen_at(int fd, const fs::path& path) {
  const auto address = address_of(path);
  if (!address) return address.error();
  ::unlink(path.c_str());
  if (::bind(fd, generic(*address), sizeof(*address)) != 0 ||
      ::chmod(path.c_str(), kSocketMode) != 0 || ::listen(fd, kBacklog) != 0) {
    return fail_errno("could not listen on " + path.string());
  }
  return {};
}

// SO_PEERGROUPS gives as many groups as there are; the first call tells how many that is.
std::vector<gid_t> groups_of(int connection) {
  std::vector<gid_t> groups(64);
  while (true) {
    auto bytes = static_cast<socklen_t>(groups.size() * sizeof(gid_t));
    const int got = ::getsockopt(connection, SOL_SOCKET, SO_PEERGROUPS, groups.data(), &bytes);
    if (got != 0 && errno != ERANGE) return {};
    groups.resize(bytes / sizeof(gid_t));
    if (got == 0) return groups;
  }
}

// -1: no socket.
int option_of(int fd, int option) {
  int value = -1;
  socklen_t size = sizeof(value);
  return ::getsockopt(fd, SOL_SOCKET, option, &value, &size) == 0 ? value : -1;
}

}  // namespace

Result<HttpListener> HttpListener::open(const fs::path& path) {
  const auto address = address_of(path);
  if (!address) return address.error();
  if (auto made = make_directory(path); !made) return made.error();
  if (auto free = check_place(path, *address); !free) return free.error();
  auto fd = new_socket();
  if (!fd) return fd.error();
  const fs::path temporary = path.string() + "." + std::to_string(::getpid());
  if (auto listening = listen_at(fd->get(), temporary); !listening) return listening.error();
  struct stat info {};
  if (::lstat(temporary.c_str(), &info) != 0 || ::rename(temporary.c_str(), path.c_str()) != 0) {
    const Error error = fail_errno("could not put the socket at " + path.string());
    ::unlink(temporary.c_str());
    return error;
  }
  return HttpListener(std::move(*fd), path, info.st_dev, info.st_ino);
}

Result<HttpListener> HttpListener::adopt(UniqueFd socket) {
  if (option_of(socket.get(), SO_DOMAIN) != AF_UNIX ||
      option_of(socket.get(), SO_TYPE) != SOCK_STREAM ||
      option_of(socket.get(), SO_ACCEPTCONN) != 1) {
    return fail(ErrorCode::kInvalidArgument,
                "the socket that was passed is no UNIX stream socket that is listened on",
                "in the socket unit, ListenStream= must be a path, and Accept=no");
  }
  const int flags = ::fcntl(socket.get(), F_GETFL);
  if (flags < 0 || ::fcntl(socket.get(), F_SETFL, flags | O_NONBLOCK) != 0) {
    return fail_errno("could not take the socket that was passed");
  }
  return HttpListener(std::move(socket), {}, 0, 0);
}

HttpListener::HttpListener(UniqueFd fd, fs::path path, dev_t device, ino_t inode)
    : fd_(std::move(fd)), path_(std::move(path)), device_(device), inode_(inode) {}

HttpListener::HttpListener(HttpListener&& other) noexcept = default;

HttpListener::~HttpListener() {
  if (fd_.valid() && !path_.empty()) remove_socket(path_, device_, inode_);
}

std::optional<gid_t> find_privileged_group() {
  const group* const found = ::getgrnam(kPrivilegedGroup);
  if (found == nullptr) return std::nullopt;
  return found->gr_gid;
}

Result<Caller> identify_caller(int connection, std::optional<gid_t> privileged_group) {
  ucred peer{};
  socklen_t size = sizeof(peer);
  if (::getsockopt(connection, SOL_SOCKET, SO_PEERCRED, &peer, &size) != 0) {
    return fail_errno("could not tell who is connected");
  }
  Caller caller{.uid = peer.uid, .gid = peer.gid, .pid = peer.pid, .privileged = peer.uid == 0};
  if (!caller.privileged && privileged_group) {
    const std::vector<gid_t> groups = groups_of(connection);
    caller.privileged = peer.gid == *privileged_group ||
                        std::ranges::find(groups, *privileged_group) != groups.end();
  }
  return caller;
}

}  // namespace profd
