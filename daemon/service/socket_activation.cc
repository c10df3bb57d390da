#include "daemon/service/socket_activation.h"

#include <fcntl.h>
#include <unistd.h>

#include <algorithm>
#include <cstdint>
#include <optional>
#include <string_view>
#include <utility>

#include "daemon/service/environment.h"

namespace profd {
namespace {

constexpr int kFirstFd = 3;
constexpr std::uint64_t kMostFds =
    64;  // more than any unit of ours has: a wrong number, not a wish

// Up to the next colon, which goes too.
std::string take_name(std::string_view& names) {
  const std::string_view name = names.substr(0, names.find(':'));
  names.remove_prefix(std::min(names.size(), name.size() + 1));
  return name.empty() ? "unknown" : std::string(name);
}

}  // namespace

std::vector<PassedSocket> take_passed_sockets() {
  const std::optional<std::uint64_t> pid = take_number("LISTEN_PID");
  const std::uint64_t count = take_number("LISTEN_FDS").value_or(0);
  const std::string all_names = take_variable("LISTEN_FDNAMES");
  std::vector<PassedSocket> passed;
  if (pid != static_cast<std::uint64_t>(::getpid()) || count > kMostFds) return passed;
  std::string_view names = all_names;
  for (int fd = kFirstFd; fd < kFirstFd + static_cast<int>(count); ++fd) {
    std::string name = take_name(names);
    if (::fcntl(fd, F_SETFD, FD_CLOEXEC) == 0) passed.push_back({std::move(name), UniqueFd(fd)});
  }
  return passed;
}

}  // namespace profd
