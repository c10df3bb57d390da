// profctl against the real control server, with a service that has one session, "5f2c01ab", and its
// result.

#pragma once

#include <filesystem>
#include <string>
#include <vector>

#include <gtest/gtest.h>

#include "tests/ctl/a_result.h"
#include "tests/ctl/ran.h"
#include "tests/daemon/control/running_server.h"

namespace profd::test {

class ProfctlTest : public ::testing::Test {
 protected:
  ProfctlTest() { give_a_result(service_); }

  Ran run(const std::vector<std::string>& arguments) {
    return run_with_socket(server_.socket(), arguments);
  }

  FakeService service_;
  RunningServer server_{service_};
  TemporaryDirectory directory_;
  std::filesystem::path out_ = directory_.path() / "out";
};

}  // namespace profd::test
