// A control server of a service that does as the test says, and the limits that such tests keep
// away from.

#pragma once

#include <chrono>

#include <gmock/gmock.h>

#include "daemon/control/server.h"
#include "tests/daemon/control/fake_service.h"

namespace profd::test {

class ControlServerTest : public ::testing::Test {
 protected:
  ControlServerTest() {
    service_.info.session = "5f2c01ab";
    service_.info.state = "running";
    service_.result.result = "5f2c01ab";
    service_.state.version = "0.1.0";
  }

  // No limit on time but generous ones: what a test does not test must not strike it.
  static ControlLimits patient() {
    ControlLimits limits;
    limits.http.request = std::chrono::seconds(60);
    limits.http.stall = std::chrono::seconds(60);
    return limits;
  }

  FakeService service_;
};

}  // namespace profd::test
