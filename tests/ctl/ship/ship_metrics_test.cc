#include "ctl/ship/ship_metrics.h"

#include <chrono>
#include <regex>
#include <set>
#include <string>

#include <gmock/gmock.h>

namespace profd {
namespace {

using testing::HasSubstr;
using testing::Not;
using testing::StartsWith;

const ShipTime kNow =
    std::chrono::sys_days(std::chrono::year(2026) / 1 / 2) + std::chrono::minutes(721);

EndpointReport endpoint_of(const std::string& name) {
  EndpointReport report;
  report.name = name;
  report.state.window = "20260102T120000Z";
  report.state.windows_unknown = 2;
  report.state.windows_dropped = {{"too_old", 3}};
  report.state.profiles_sent = 12;
  report.state.bytes_sent = 12'000'000;
  report.state.bytes_dropped = {{"refused", 4}};
  return report;
}

TEST(ShipMetricsTest, EachEndpointHasSeriesAfterTheDaemons) {
  const std::string text =
      ship_metrics(std::string("daemon 1"), {endpoint_of("a"), endpoint_of("b")}, kNow);
  EXPECT_THAT(text, StartsWith("daemon 1\n# HELP profd_up"));
  for (const char* line : {"profd_up 1", R"(profd_ship_lag_seconds{endpoint="a"} 60)",
                           R"(profd_ship_windows_dropped_total{endpoint="b",reason="too_old"} 3)",
                           R"(profd_ship_windows_dropped_total{endpoint="b",reason="unknown"} 2)",
                           R"(profd_ship_windows_dropped_total{endpoint="b",reason="gone"} 0)",
                           R"(profd_ship_profiles_sent_total{endpoint="a"} 12)",
                           R"(profd_ship_sent_bytes_total{endpoint="a"} 12000000)",
                           R"(profd_ship_dropped_bytes_total{endpoint="a",reason="refused"} 4)",
                           R"(profd_ship_failing{endpoint="a"} 0)"}) {
    EXPECT_THAT(text, HasSubstr("\n" + std::string(line) + "\n"));
  }
}

// Those of SHIP in profctl(1): without a series, a first loss is no increase.
TEST(ShipMetricsTest, EachReasonHasASeriesBeforeTheFirstLoss) {
  const std::string text = ship_metrics(std::string(), {endpoint_of("a")}, kNow);
  const auto series = [](const std::string& metric, const std::string& reason) {
    return "\nprofd_ship_" + metric + "_dropped_total{endpoint=\"a\",reason=\"" + reason + "\"} ";
  };
  for (const char* reason :
       {"invalid_labels", "malformed", "refused", "too_large", "too_old", "unknown"}) {
    EXPECT_THAT(text, HasSubstr(series("windows", reason)));
    EXPECT_THAT(text, HasSubstr(series("profiles", reason)));
  }
  EXPECT_THAT(text, HasSubstr(series("profiles", "ended")));
  for (const char* reason : {"gone", "in_future", "unreadable"}) {
    EXPECT_THAT(text, HasSubstr(series("windows", reason)));
  }
}

TEST(ShipMetricsTest, WithoutTheDaemonItsOwnAreServed) {
  EndpointReport failing = endpoint_of("a");
  failing.failing_since = "1970-01-01T00:01:40Z";
  const std::string text =
      ship_metrics(fail(ErrorCode::kUnavailable, "profd is not running"), {failing}, kNow);
  EXPECT_THAT(text, StartsWith("# HELP profd_up"));
  EXPECT_THAT(text, HasSubstr("\nprofd_up 0\n"));
  EXPECT_THAT(text, HasSubstr("\nprofd_ship_failing{endpoint=\"a\"} 1\n"));
  EXPECT_THAT(text,
              HasSubstr("\nprofd_ship_failing_since_timestamp_seconds{endpoint=\"a\"} 100\n"));
  EXPECT_THAT(text, Not(HasSubstr("not running")));
}

TEST(ShipMetricsTest, CountersBeginAtZeroWithTheProcess) {
  const ShipState start = endpoint_of("a").state;
  EndpointReport report = endpoint_of("a");
  report.state = counted_since(start, report.state);
  for (const char* line : {R"(profd_ship_windows_dropped_total{endpoint="a",reason="too_old"} 0)",
                           R"(profd_ship_windows_dropped_total{endpoint="a",reason="unknown"} 0)",
                           R"(profd_ship_profiles_sent_total{endpoint="a"} 0)",
                           R"(profd_ship_sent_bytes_total{endpoint="a"} 0)",
                           R"(profd_ship_dropped_bytes_total{endpoint="a",reason="refused"} 0)"}) {
    EXPECT_THAT(ship_metrics(std::string(), {report}, kNow), HasSubstr("\n" + std::string(line)));
  }
  ShipState now = start;
  now.window = "20260102T120100Z";
  now.windows_sent += 1;
  now.windows_dropped = {{"gone", 2}, {"too_old", 4}};
  now.profiles_dropped = {{"ended", 5}};
  now.rows_dropped = 6;
  now.services_other = 7;
  now.series_joined = 8;
  ShipState counted;
  counted.window = now.window;
  counted.windows_sent = 1;
  counted.windows_dropped = {{"gone", 2}, {"too_old", 1}};
  counted.profiles_dropped = {{"ended", 5}};
  counted.bytes_dropped = {{"refused", 0}};
  counted.rows_dropped = 6;
  counted.services_other = 7;
  counted.series_joined = 8;
  EXPECT_EQ(counted_since(start, now), counted);
}

TEST(ShipMetricsTest, EachFamilyIsThereOnce) {
  const std::string text = ship_metrics(std::string(), {endpoint_of("a")}, kNow);
  const std::regex family("# TYPE (\\S+) (counter|gauge)\n");
  std::set<std::string> names;
  for (std::sregex_iterator one(text.begin(), text.end(), family), end; one != end; ++one) {
    EXPECT_TRUE(names.insert((*one)[1]).second) << (*one)[1];
    EXPECT_EQ((*one)[1].str().ends_with("_total"), (*one)[2] == "counter") << (*one)[1];
  }
  EXPECT_GT(names.size(), 10U);
}

}  // namespace
}  // namespace profd
