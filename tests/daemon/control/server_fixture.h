// A control server over a fake service, and limits that its tests do not reach.

#pragma once

#include <sys/types.h>

#include <chrono>

#include <gmock/gmock.h>

#include "daemon/control/server.h"
#include "formats/api/error_json.h"
#include "tests/daemon/control/fake_service.h"
#include "tests/daemon/control/raw_client.h"

namespace profd::test {

inline constexpr uid_t kSomebody = 4711;
inline constexpr gid_t kSomeGroup = 4712;

[[nodiscard]] inline Error error_of(const RawAnswer& answer) { return parse_error(answer.body); }

class ControlServerTest : public ::testing::Test {
 protected:
  ControlServerTest() {
    service_.info.session = "5f2c01ab";
    service_.info.state = "running";
    service_.result.result = "5f2c01ab";
    service_.state.version = "0.1.0";
  }

  // Long times: a test must not reach a limit that it does not test.
  static ControlLimits patient() {
    ControlLimits limits;
    limits.http.request = std::chrono::seconds(60);
    limits.http.stall = std::chrono::seconds(60);
    return limits;
  }

  FakeService service_;
};

}  // namespace profd::test
