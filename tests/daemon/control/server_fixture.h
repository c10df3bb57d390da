// A control server over a fake service, and limits that its tests do not reach.

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
