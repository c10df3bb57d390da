// The addresses of a host by its name, within a time limit.
//
// getaddrinfo(3) may wait for a DNS server that does not answer for as long as resolv.conf says,
// and nothing ends it. So a thread of its own calls it, and is abandoned when it takes too long.
// While it runs, the next call waits for the same one: there is one such thread at most.

#pragma once

#include <functional>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "ctl/ship/transport/net_wait.h"
#include "formats/base/result.h"

namespace profd {

// As text, for example "192.0.2.1" or "fe80::1%eth0"; at least one.
using HostAddresses = std::vector<std::string>;

// May be called by a thread that outlives its caller.
using HostLookup = std::function<Result<HostAddresses>(const std::string& host)>;

// By getaddrinfo(3). kUnavailable, with what to do: it has found none.
[[nodiscard]] Result<HostAddresses> look_up_host(const std::string& host);

class BoundedLookup {
 public:
  explicit BoundedLookup(HostLookup lookup) : lookup_(std::move(lookup)) {}

  // An address is its own result; kUnavailable, with what to do, where its scope is no interface of
  // this host. "localhost" is this host without a lookup (RFC 6761, section 6.3): secrets go there
  // in clear text, and a DNS server could name another host. kTimeout: over the limit, or the
  // program is to end.
  [[nodiscard]] Result<HostAddresses> find(const std::string& host, const WaitLimit& limit);

 private:
  struct Call;

  [[nodiscard]] Result<void> start(const std::string& host);

  HostLookup lookup_;
  std::shared_ptr<Call> call_;  // under way; the thread has it too
};

}  // namespace profd
