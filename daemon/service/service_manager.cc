#include "daemon/service/service_manager.h"

#include <sys/socket.h>
#include <sys/un.h>
#include <time.h>
#include <unistd.h>

#include <algorithm>
#include <cstddef>
#include <cstdint>

#include "daemon/service/environment.h"

namespace profd {
namespace {

// "/path", or "@name" for one that is in no file system.
UniqueFd connect_to(const std::string& name) {
  sockaddr_un address{};
  address.sun_family = AF_UNIX;
  const bool is_known = name.starts_with('/') || name.starts_with('@');
  if (!is_known || name.size() >= sizeof(address.sun_path)) return {};
  std::ranges::copy(name, address.sun_path);
  if (name.starts_with('@')) address.sun_path[0] = 0;
  const auto size = static_cast<socklen_t>(offsetof(sockaddr_un, sun_path) + name.size());
  UniqueFd socket(::socket(AF_UNIX, SOCK_DGRAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0));
  const auto* const generic = reinterpret_cast<const sockaddr*>(&address);
  if (!socket.valid() || ::connect(socket.get(), generic, size) != 0) return {};
  return socket;
}

std::uint64_t monotonic_usec() {
  timespec now{};
  ::clock_gettime(CLOCK_MONOTONIC, &now);
  return static_cast<std::uint64_t>(now.tv_sec) * 1'000'000 +
         static_cast<std::uint64_t>(now.tv_nsec) / 1'000;
}

}  // namespace

ServiceManager ServiceManager::from_environment() {
  ServiceManager manager;
  const std::string socket = take_variable("NOTIFY_SOCKET");
  const std::optional<std::uint64_t> usec = take_number("WATCHDOG_USEC");
  const std::optional<std::uint64_t> pid = take_number("WATCHDOG_PID");
  if (!socket.empty()) manager.socket_ = connect_to(socket);
  const bool is_meant = !pid || *pid == static_cast<std::uint64_t>(::getpid());
  if (usec && *usec > 0 && is_meant) manager.patience_ = std::chrono::microseconds(*usec);
  return manager;
}

void ServiceManager::ready() { tell("READY=1"); }

void ServiceManager::reloading() {
  tell("RELOADING=1\nMONOTONIC_USEC=" + std::to_string(monotonic_usec()));
}

void ServiceManager::stopping() { tell("STOPPING=1"); }

void ServiceManager::status(std::string_view text) {
  std::string line = "STATUS=" + std::string(text);
  std::ranges::replace(line, '\n', ' ');
  tell(line);
}

void ServiceManager::alive() { tell("WATCHDOG=1"); }

void ServiceManager::tell(std::string_view lines) {
  if (socket_.valid()) (void)::send(socket_.get(), lines.data(), lines.size(), MSG_NOSIGNAL);
}

}  // namespace profd
