#include "formats/base/time_text.h"

#include <time.h>

#include <array>
#include <cstdio>
#include <cstdlib>
#include <memory>
#include <stdexcept>
#include <string>
#include <utility>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace profd {
namespace {

using namespace std::chrono_literals;
using std::chrono::milliseconds;
using ::testing::HasSubstr;

// Sets the time zone of the process for the lifetime of the object.
class TimeZone {
 public:
  explicit TimeZone(const char* name) {
    ::setenv("TZ", name, 1);
    ::tzset();
  }
  TimeZone(const TimeZone&) = delete;
  TimeZone& operator=(const TimeZone&) = delete;
  ~TimeZone() {
    ::unsetenv("TZ");
    ::tzset();
  }
};

// The time that date(1) reads from `text`, in the time zone of the environment.
WallTime by_date(const std::string& text) {
  const std::string command = "date -d '" + text + "' +%s%3N";
  const std::unique_ptr<FILE, int (*)(FILE*)> pipe(::popen(command.c_str(), "r"), &::pclose);
  std::array<char, 64> line{};
  if (!pipe || std::fgets(line.data(), line.size(), pipe.get()) == nullptr) {
    throw std::runtime_error("date(1) can't read " + text);
  }
  return WallTime(milliseconds(std::stoll(line.data())));
}

constexpr std::array kZones = {"UTC", "Europe/Berlin", "America/St_Johns", "Pacific/Auckland"};

TEST(TimeText, ReadsWhatDateReads) {
  const std::pair<const char*, const char*> table[] = {
      {"2026-11-20 14:05", "2026-11-20 14:05"},
      {"2026-11-20 14:05:59", "2026-11-20 14:05:59"},
      {"2026-11-20 14:05:59.25", "2026-11-20 14:05:59.25"},
      {"2026-07-20", "2026-07-20"},
      {"Sat 2026-11-21 09:40", "Sat 2026-11-21 09:40"},
      {"Saturday 2026-11-21 09:40:01", "Saturday 2026-11-21 09:40:01"},
      {"sun 2026-11-22", "Sun 2026-11-22"},
      {"Fri 2026-11-20 14:05:00 UTC", "Fri 2026-11-20 14:05:00 UTC"},
      {"2028-02-29 00:00", "2028-02-29 00:00"},
      {"14:05", "2026-03-10 14:05"},
      {"00:00:01", "2026-03-10 00:00:01"},
      {"today", "2026-03-10 00:00"},
      {"yesterday", "2026-03-09 00:00"},
      {"2026-11-20T14:05:00Z", "2026-11-20T14:05:00Z"},
      {"2026-11-20T14:05:00+05:30", "2026-11-20T14:05:00+05:30"},
      {"2026-11-20T14:05:00.123-08:00", "2026-11-20T14:05:00.123-08:00"},
      {"2026-11-20 14:05 UTC", "2026-11-20 14:05 UTC"},
      {"2026-11-20T14:05", "2026-11-20 14:05"},
      {"@1395716396", "@1395716396"},
      {"@1395716396.5", "@1395716396.5"},
  };
  for (const char* zone : kZones) {
    const TimeZone in(zone);
    const WallTime now = by_date("2026-03-10 12:34:56");
    for (const auto& [text, oracle] : table) {
      const auto time = parse_time_text(text, now);
      ASSERT_TRUE(time) << text << " in " << zone;
      EXPECT_EQ(*time, by_date(oracle)) << text << " in " << zone;
    }
  }
}

TEST(TimeText, CountsFromNow) {
  const WallTime now{1'700'000'000s};
  const std::pair<const char*, milliseconds> table[] = {
      {"now", 0ms},
      {"-10m", -10min},
      {"-5", -5s},
      {"10 min ago", -10min},
      {"10min ago", -10min},
      {"1h 30min ago", -90min},
      {"2 hours 1 minute ago", -121min},
      {"-1.5h", -90min},
      {"-1d", -24h},
      {"-1w2d", -9 * 24h},
      {"-1h30m", -90min},
      {"1h ago", -1h},
      {"2 weeks 1 minute ago", -(14 * 24h + 1min)},
      {"-250ms", -250ms},
      {"1 day 2 hr 3 sec ago", -(26h + 3s)},
  };
  for (const auto& [text, distance] : table) {
    const auto time = parse_time_text(text, now);
    ASSERT_TRUE(time) << text;
    EXPECT_EQ(*time - now, distance) << text;
  }
}

TEST(TimeText, RefusesOtherTextsAndNamesTheFormsThatItReads) {
  const WallTime now{1'700'000'000s};
  for (const char* text : {"",
                           "soon",
                           "-",
                           "+",
                           "ago",
                           " ago",
                           "10",
                           "10m",
                           "-10x",
                           "-10m ",
                           "- 10m",
                           "-m",
                           "-1h-1m",
                           "14",
                           "14:",
                           "14:5",
                           "4:05",
                           "24:00",
                           "14:60",
                           "14:05:60",
                           "14:05:00.",
                           "14:05 ",
                           " 14:05",
                           "14:05x",
                           "2026-1-1",
                           "2026-13-01",
                           "2026-00-10",
                           "2026-02-29",
                           "2026-11-31",
                           "26-11-20",
                           "20261120",
                           "2026-11-20 ",
                           "2026-11-20T",
                           "2026-11-20 14",
                           "2026-11-20  14:05",
                           "1969-12-31 00:00 UTC",
                           "2026-11-20T14:05:00+5",
                           "2026-11-20T14:05:00+24:00",
                           "2026-11-20Z",
                           "Fri 2026-11-21 09:40",
                           "Sat",
                           "Sat ",
                           "Sat 09:40",
                           "Sat  2026-11-21",
                           "Sat2026-11-21",
                           "Satur 2026-11-21",
                           "Sat 2026-11-31",
                           "Sat -10m",
                           "@",
                           "@-1",
                           "@1e9",
                           "@99999999999999",
                           "-99999999999999999h",
                           "-1..5h",
                           "now ago",
                           "+10m",
                           "tomorrow",
                           "14:05.5",
                           "2026-11-20T14:05:00+01:60",
                           "2026-11-20T14:05:00+01:00Z",
                           "2026-02-29T00:00:00Z",
                           "Today",
                           "-60y",
                           "14:05 CET"}) {
    const auto time = parse_time_text(text, now);
    ASSERT_FALSE(time) << "\"" << text << "\"";
    EXPECT_EQ(time.error().code, ErrorCode::kInvalidArgument);
    EXPECT_THAT(time.error().message, HasSubstr("cannot parse time '" + std::string(text) + "'"));
    EXPECT_THAT(time.error().hint, HasSubstr("yesterday"));
  }
}

TEST(TimeText, SuggestsASignForASpan) {
  EXPECT_EQ(parse_time_text("14h", WallTime{}).error().message,
            "cannot parse time '14h'; did you mean -14h?");
  EXPECT_EQ(parse_time_text("14hh", WallTime{}).error().message, "cannot parse time '14hh'");
}

TEST(TimeText, RefusesALocalTimeThatAChangeOfClocksSkips) {
  const TimeZone berlin("Europe/Berlin");
  const WallTime now{1'700'000'000s};
  EXPECT_FALSE(parse_time_text("2026-03-29 02:30", now));
  EXPECT_EQ(*parse_time_text("2026-03-29 03:00", now), by_date("2026-03-29 01:00 UTC"));
}

// Midnight did not happen in Beirut on 2025-03-30: clocks went from 24:00 to 01:00.
TEST(TimeText, ADayWithoutMidnightBeginsAtItsFirstMoment) {
  const TimeZone beirut("Asia/Beirut");
  const WallTime noon = by_date("2025-03-30 12:00");
  EXPECT_EQ(*parse_time_text("today", noon), by_date("2025-03-29 22:00 UTC"));
  EXPECT_EQ(*parse_time_text("2025-03-30", noon), by_date("2025-03-29 22:00 UTC"));
  EXPECT_EQ(*parse_time_text("yesterday", noon + 24h), by_date("2025-03-29 22:00 UTC"));
}

TEST(TimeText, YesterdayIsTheDayBeforeAlsoWhereADayHas23Or25Hours) {
  const TimeZone berlin("Europe/Berlin");
  for (const char* clock : {"00:00:00", "00:30:00", "12:00:00", "23:59:59"}) {
    for (const auto& [day, before] :
         {std::pair("2026-03-29", "2026-03-28"), std::pair("2026-03-30", "2026-03-29"),
          std::pair("2026-10-25", "2026-10-24"), std::pair("2026-10-26", "2026-10-25")}) {
      const WallTime now = by_date(std::string(day) + " " + clock);
      EXPECT_EQ(*parse_time_text("yesterday", now), by_date(before)) << day << " " << clock;
    }
  }
}

TEST(TimeText, SpansHaveUnitsOrAreSeconds) {
  const std::pair<const char*, milliseconds> table[] = {
      {"10m", 10min},   {"90", 90s},           {"1h 30min", 90min}, {"1.5h", 90min},
      {"500ms", 500ms}, {"2 weeks", 14 * 24h}, {"1ms", 1ms},
  };
  for (const auto& [text, expected] : table) {
    const auto span = parse_time_span(text);
    ASSERT_TRUE(span) << text;
    EXPECT_EQ(*span, expected) << text;
  }
  for (const char* text : {"", "0", "0s", "-1m", "m", "1 m ", " 1m", "1mm", "1m ago", "today",
                           "1e3", ".", "inf", "1,5h"}) {
    EXPECT_FALSE(parse_time_span(text)) << "\"" << text << "\"";
  }
}

TEST(TimeText, KnowsATimeThatStandsWhereNoneIsExpected) {
  for (const char* const span : {"5m", "1h30m", "1h 30min", "500ms", "10 s"}) {
    EXPECT_EQ(time_form_of(span), TimeForm::kSpan) << span;
  }
  for (const char* const point : {"20:19", "20:19:30", "2026-11-20", "2026-11-20 14:05",
                                  "yesterday", "5m ago", "-10m", "@1767323000"}) {
    EXPECT_EQ(time_form_of(point), TimeForm::kPoint) << point;
  }
  for (const char* const other : {"", "5", "1234", "1,2", "1.5", "0s", "5f2c01ab", "nginx", "m",
                                  "25:00", "14:00..14:10", "a.pb.gz", "5m later"}) {
    EXPECT_EQ(time_form_of(other), TimeForm::kNone) << other;
  }
}

TEST(TimeText, ATimeWithABlankIsOneArgumentInQuotes) {
  EXPECT_EQ(quoted_time("14:05"), "14:05");
  EXPECT_EQ(quoted_time("5m ago"), "\"5m ago\"");
  EXPECT_EQ(quoted_time(""), "");
}

TEST(TimeText, ReadsTheTimesThatItWrites) {
  for (const char* zone : kZones) {
    const TimeZone in(zone);
    const WallTime time = by_date("2026-11-20 14:05:09");
    EXPECT_EQ(local_time_text(time), "2026-11-20 14:05:09");
    EXPECT_EQ(*parse_time_text(local_time_text(time), WallTime{}), time);
    EXPECT_EQ(local_time_text(time - std::chrono::milliseconds(40)), "2026-11-20 14:05:09");
    EXPECT_EQ(local_time_text(time + std::chrono::milliseconds(40)), "2026-11-20 14:05:09");
    EXPECT_EQ(utc_text(by_date("2026-11-20 14:05:09 UTC")), "2026-11-20T14:05:09Z");
    EXPECT_EQ(*parse_time_text(utc_text(time), WallTime{}), time);
  }
}

}  // namespace
}  // namespace profd
