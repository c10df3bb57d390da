// A user who starts and ends sessions as fast as it can, each with lines in the log: the log grows
// by few lines a second, and says how many were left out.

#include <chrono>
#include <cstddef>
#include <cstdint>
#include <sstream>
#include <string>
#include <string_view>
#include <thread>

#include <gmock/gmock.h>

#include "formats/api/control_api.h"
#include "tests/daemon/control/raw_client.h"
#include "tests/e2e/harness.h"
#include "tests/hostile/attack.h"

namespace profd::e2e {
namespace {

using Clock = std::chrono::steady_clock;
using std::chrono_literals::operator""s;
using std::chrono_literals::operator""ms;
using ::testing::Gt;
using ::testing::Le;

constexpr std::uint64_t kLinesPerSecond = 10;
constexpr std::string_view kLine = "started by uid";
constexpr std::string_view kLeftOut = " more lines were left out: ";

// The lines about the start of a session: those in the log, and those that it says were left out.
struct Lines {
  std::uint64_t written = 0;
  std::uint64_t left_out = 0;
};

Lines lines_of_starts(const std::string& log) {
  Lines lines;
  std::istringstream stream(log);
  for (std::string line; std::getline(stream, line);) {
    if (line.find(kLine) == line.npos) continue;
    const std::size_t mark = line.find(kLeftOut);
    if (mark == line.npos) {
      ++lines.written;
    } else {
      lines.left_out += std::stoull(line.substr(line.rfind(' ', mark - 1) + 1));
    }
  }
  return lines;
}

class HostileLogTest : public ::testing::Test {
 protected:
  // Starts a session as the user and ends it.
  void start_and_end() const {
    RawClient client;
    client.connect_as(daemon_.socket(), kSomebody, kSomebody);
    const RawAnswer started = client.ask(
        "POST", "/v1/sessions", "{\"target\":{\"uids\":[" + std::to_string(kSomebody) + "]}}");
    ASSERT_EQ(started.status, 201) << started.body;
    const auto id = parse_started(started.body);
    ASSERT_TRUE(id);
    const RawAnswer stopped = client.ask("POST", "/v1/sessions/" + *id + "/stop");
    ASSERT_EQ(stopped.status, 200) << stopped.body;
    ASSERT_EQ(client.ask("DELETE", "/v1/results/" + *id).status, 204);
  }

  Daemon daemon_;
};

TEST_F(HostileLogTest, GetsTenLinesASecondAndACountOfTheRest) {
  const auto began = Clock::now();
  const auto end = began + attack_time(3s);
  std::uint64_t starts = 0;
  while (Clock::now() < end) {
    start_and_end();
    ++starts;
  }
  std::this_thread::sleep_for(1100ms);  // the count of an interval comes with the first line after
  start_and_end();
  ++starts;
  const auto seconds = std::chrono::duration_cast<std::chrono::seconds>(Clock::now() - began);
  Lines lines;
  EXPECT_TRUE(eventually([&] {
    lines = lines_of_starts(daemon_.process().err());
    return lines.written + lines.left_out == starts;
  })) << lines.written
      << " + " << lines.left_out << " of " << starts;
  const auto intervals = static_cast<std::uint64_t>(seconds.count()) + 1;
  EXPECT_THAT(lines.written, Le(intervals * kLinesPerSecond));
  EXPECT_THAT(starts, Gt(intervals * kLinesPerSecond)) << "too few to be a flood";
}

}  // namespace
}  // namespace profd::e2e
