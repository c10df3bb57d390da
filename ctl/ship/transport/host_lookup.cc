#include "ctl/ship/transport/host_lookup.h"

#include <arpa/inet.h>
#include <netinet/in.h>
#include <poll.h>
#include <sys/eventfd.h>
#include <sys/socket.h>

#include <array>
#include <cerrno>
#include <mutex>
#include <optional>
#include <system_error>
#include <thread>

#include <netdb.h>

#include "formats/base/errors.h"
#include "formats/base/unique_fd.h"

namespace profd {
namespace {

constexpr std::size_t kMaxAddresses = 16;

struct FreeAddressList {
  void operator()(addrinfo* list) const { ::freeaddrinfo(list); }
};

// With the scope of an IPv6 address, as "%eth0", or without.
bool is_literal_address(const std::string& host) {
  std::array<unsigned char, sizeof(in6_addr)> bytes{};
  const std::string plain = host.substr(0, host.find('%'));
  return ::inet_pton(AF_INET, host.c_str(), bytes.data()) == 1 ||
         ::inet_pton(AF_INET6, plain.c_str(), bytes.data()) == 1;
}

// Whether its scope, if it has one, is an interface of this host. Asks no DNS server.
bool is_usable_address(const std::string& literal) {
  addrinfo hints{};
  hints.ai_flags = AI_NUMERICHOST;
  hints.ai_socktype = SOCK_STREAM;
  addrinfo* found = nullptr;
  const int error = ::getaddrinfo(literal.c_str(), nullptr, &hints, &found);
  const std::unique_ptr<addrinfo, FreeAddressList> list(found);
  return error == 0;
}

// Returns 0 or an error of getaddrinfo(3).
int get_addresses(const std::string& host, HostAddresses& addresses) {
  addrinfo hints{};
  hints.ai_socktype = SOCK_STREAM;
  addrinfo* found = nullptr;
  const int error = ::getaddrinfo(host.c_str(), nullptr, &hints, &found);
  if (error != 0) return error;
  const std::unique_ptr<addrinfo, FreeAddressList> list(found);
  for (const addrinfo* one = found; one != nullptr; one = one->ai_next) {
    std::array<char, NI_MAXHOST> text{};
    const int unnamed =
        ::getnameinfo(one->ai_addr, one->ai_addrlen, text.data(),
                      static_cast<socklen_t>(text.size()), nullptr, 0, NI_NUMERICHOST);
    if (unnamed == 0 && addresses.size() < kMaxAddresses) addresses.emplace_back(text.data());
  }
  return addresses.empty() ? EAI_NONAME : 0;
}

}  // namespace

Result<HostAddresses> look_up_host(const std::string& host) {
  HostAddresses addresses;
  const int error = get_addresses(host, addresses);
  if (error == 0) return addresses;
  const std::string why =
      error == EAI_SYSTEM ? net_error(errno).message : std::string(::gai_strerror(error));
  return fail(ErrorCode::kUnavailable, "no address of " + host + " was found: " + why,
              "check the name, and the DNS servers of this host");
}

struct BoundedLookup::Call {
  void end_with(Result<HostAddresses> addresses) {
    {
      const std::scoped_lock lock(mutex);
      found = std::move(addresses);
    }
    (void)::eventfd_write(has_ended.get(), 1);
  }

  std::string host;
  UniqueFd has_ended;  // readable then
  std::mutex mutex;    // of `found`
  std::optional<Result<HostAddresses>> found;
};

Result<HostAddresses> BoundedLookup::find(const std::string& host, const WaitLimit& limit) {
  if (host == "localhost") return HostAddresses{"::1", "127.0.0.1"};
  if (is_literal_address(host)) {
    if (is_usable_address(host)) return HostAddresses{host};
    return fail(ErrorCode::kUnavailable, "the scope of the address " + host + " is unknown",
                "give a network interface of this host after the %: its number, or for an address "
                "of fe80::/10 its name, as ip link shows them");
  }
  if (call_ && call_->host != host) call_.reset();
  if (!call_) {
    if (auto started = start(host); !started) return started.error();
  }
  const int error = wait_ready(call_->has_ended.get(), POLLIN, limit);
  if (error == ETIMEDOUT) {
    return fail(ErrorCode::kTimeout, "no DNS server answers for " + host,
                "check the DNS servers of this host");
  }
  if (error != 0) return net_error(error);
  const std::shared_ptr<Call> ended = std::exchange(call_, nullptr);
  const std::scoped_lock lock(ended->mutex);
  return std::move(*ended->found);
}

Result<void> BoundedLookup::start(const std::string& host) {
  auto call = std::make_shared<Call>();
  call->host = host;
  call->has_ended.reset(::eventfd(0, EFD_CLOEXEC));
  if (!call->has_ended.valid()) return fail_errno("could not make an eventfd");
  try {
    std::thread([call, lookup = lookup_] { call->end_with(lookup(call->host)); }).detach();
  } catch (const std::system_error& problem) {
    return fail(ErrorCode::kIo, std::string("could not start a thread: ") + problem.what());
  }
  call_ = std::move(call);
  return {};
}

}  // namespace profd
