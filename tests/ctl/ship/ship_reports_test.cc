// What profctl status shows of profctl ship.

#include "ctl/commands/ship_reports.h"

#include <chrono>
#include <cstdlib>
#include <ctime>
#include <sstream>
#include <string>

#include <gmock/gmock.h>

namespace profd {
namespace {

using testing::HasSubstr;
using testing::Not;

const ShipTime kTwoPastNoon =
    std::chrono::sys_days(std::chrono::year(2026) / 1 / 2) + std::chrono::minutes(722);

class ShipReportsTest : public testing::Test {
 protected:
  ShipReportsTest() {
    ::setenv("TZ", "XST-5", 1);  // five hours before UTC
    ::tzset();
    status_.life = ShipStatus::Life::kRuns;
    EndpointReport report;
    report.name = "a";
    report.kind = "pyroscope";
    report.url = "http://h:4040";
    report.state.window = "20260102T120000Z";
    status_.endpoints = {report};
  }
  ~ShipReportsTest() override {
    ::unsetenv("TZ");
    ::tzset();
  }

  [[nodiscard]] std::string shown() const {
    std::ostringstream out;
    print_ship_status(status_, kTwoPastNoon, out);
    return out.str();
  }

  ShipStatus status_;
};

TEST_F(ShipReportsTest, WindowsHaveTheirLocalTimes) {
  EXPECT_THAT(shown(), HasSubstr("endpoint   a (pyroscope, http://h:4040): done up to the window "
                                 "of 2026-01-02 17:00:00, 2 min behind\n"));
  status_.endpoints[0].state.in_flight = "20260102T120100Z-2";
  EXPECT_THAT(shown(), HasSubstr("; that of 2026-01-02 17:01:00 is in flight\n"));
  // Another user may have written the report.
  status_.endpoints[0].state.window = "x\x1b[31m";
  EXPECT_THAT(shown(), HasSubstr("done up to the window of x?[31m"));
}

// A server that takes requests and never answers looks like one that has nothing to do otherwise.
TEST_F(ShipReportsTest, ARequestThatTakesLongIsShownWhileShipRuns) {
  const std::string line = "\n           waits for an answer since 2026-01-02 17:01:5";
  status_.endpoints[0].asked_at = "2026-01-02T12:01:54Z";
  EXPECT_THAT(shown(), HasSubstr(line + "4\n"));
  status_.endpoints[0].asked_at = "2026-01-02T12:01:55Z";
  EXPECT_THAT(shown(), Not(HasSubstr("waits"))) << "not longer than 5 s";
  status_.endpoints[0].asked_at = "2026-01-02T12:01:54Z";
  status_.life = ShipStatus::Life::kHangs;
  EXPECT_THAT(shown(), HasSubstr(line));
  status_.life = ShipStatus::Life::kEnded;
  EXPECT_THAT(shown(), Not(HasSubstr("waits")));
  status_.life = ShipStatus::Life::kRuns;
  for (const char* text : {"", "x", "9999-01-01T00:00:00Z"}) {
    status_.endpoints[0].asked_at = text;
    EXPECT_THAT(shown(), Not(HasSubstr("waits"))) << text;
  }
}

TEST_F(ShipReportsTest, AReportWithoutAUrlIsShown) {
  status_.endpoints[0].url.clear();
  EXPECT_THAT(shown(), HasSubstr("endpoint   a (pyroscope): done"));
  EXPECT_THAT(shown(), Not(HasSubstr("http")));
}

}  // namespace
}  // namespace profd
