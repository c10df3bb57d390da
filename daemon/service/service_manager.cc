#include "daemon/service/service_manager.h"

#include <fcntl.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <time.h>
#include <unistd.h>

#include <algorithm>
#include <charconv>
#include <cstddef>
#include <cstdint>
#include <system_error>

#include <stdlib.h>

#include "collectors/host/clock.h"

namespace profd {
namespace {

// "/path", or "@name" in the abstract namespace.
UniqueFd connect_to(const std::string& name) {
  sockaddr_un address{};
  address.sun_family = AF_UNIX;
  const bool is_valid = name.starts_with('/') || name.starts_with('@');
  if (!is_valid || name.size() >= sizeof(address.sun_path)) return {};
  std::ranges::copy(name, address.sun_path);
  if (name.starts_with('@')) address.sun_path[0] = 0;
  const auto size = static_cast<socklen_t>(offsetof(sockaddr_un, sun_path) + name.size());
  UniqueFd socket(::socket(AF_UNIX, SOCK_DGRAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0));
  const auto* const generic = reinterpret_cast<const sockaddr*>(&address);
  if (!socket.valid() || ::connect(socket.get(), generic, size) != 0) return {};
  return socket;
}

std::uint64_t monotonic_usec() {
  return static_cast<std::uint64_t>(now_ns(CLOCK_MONOTONIC)) / 1'000;
}

// More than any unit needs; a larger count is invalid.
constexpr std::uint64_t kMaxPassedFds = 64;
constexpr int kFirstPassedFd = 3;

std::optional<std::uint64_t> take_number(const char* name) {
  const std::string text = take_variable(name);
  std::uint64_t value = 0;
  const char* const end = text.data() + text.size();
  const auto [stop, error] = std::from_chars(text.data(), end, value);
  if (error != std::errc() || stop != end) return std::nullopt;
  return value;
}

}  // namespace

std::string take_variable(const char* name) {
  const char* const value = ::getenv(name);
  std::string text = value == nullptr ? "" : value;
  ::unsetenv(name);
  return text;
}

ServiceManager ServiceManager::from_environment() {
  ServiceManager manager;
  const std::string socket = take_variable("NOTIFY_SOCKET");
  const std::optional<std::uint64_t> usec = take_number("WATCHDOG_USEC");
  const std::optional<std::uint64_t> pid = take_number("WATCHDOG_PID");
  if (!socket.empty()) manager.socket_ = connect_to(socket);
  const bool is_for_us = !pid || *pid == static_cast<std::uint64_t>(::getpid());
  if (usec && *usec > 0 && is_for_us) manager.watchdog_timeout_ = std::chrono::microseconds(*usec);
  return manager;
}

void ServiceManager::ready() { send("READY=1"); }

void ServiceManager::reloading() {
  send("RELOADING=1\nMONOTONIC_USEC=" + std::to_string(monotonic_usec()));
}

void ServiceManager::stopping() { send("STOPPING=1"); }

void ServiceManager::status(std::string_view text) {
  std::string line = "STATUS=" + std::string(text);
  std::ranges::replace(line, '\n', ' ');
  send(line);
}

void ServiceManager::alive() { send("WATCHDOG=1"); }

void ServiceManager::send(std::string_view lines) {
  if (socket_.valid()) (void)::send(socket_.get(), lines.data(), lines.size(), MSG_NOSIGNAL);
}

std::vector<UniqueFd> take_passed_sockets() {
  const std::optional<std::uint64_t> pid = take_number("LISTEN_PID");
  const std::uint64_t count = take_number("LISTEN_FDS").value_or(0);
  (void)take_variable("LISTEN_FDNAMES");
  std::vector<UniqueFd> passed;
  if (pid != static_cast<std::uint64_t>(::getpid()) || count > kMaxPassedFds) return passed;
  for (int fd = kFirstPassedFd; fd < kFirstPassedFd + static_cast<int>(count); ++fd) {
    if (::fcntl(fd, F_SETFD, FD_CLOEXEC) == 0) passed.emplace_back(fd);
  }
  return passed;
}

}  // namespace profd
