#include "formats/xray/trace.h"

#include <string>

#include <boost/json/parse.hpp>
#include <boost/json/serialize.hpp>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "formats/base/json_text.h"
#include "tests/formats/xray/traces.h"

namespace profd::xray {
namespace {

using ::testing::ElementsAre;

constexpr ThreadId kTracedThread{10, 11};

std::string name_of(std::uint32_t id) { return "f" + std::to_string(id); }

// The events of a trace, as JSON.
boost::json::array events_of(Writer& writer, const TraceWriter::Options& options = {100, 1}) {
  std::string text;
  TraceWriter trace(options, name_of, [&text](std::string_view chunk) { text += chunk; });
  StacksOptions listening;
  listening.listener = &trace;
  Stacks stacks(listening);
  stacks.add(kTracedThread, writer.take_records());
  (void)stacks.finish();
  trace.finish();
  const auto parsed = parse_json(text, 10);
  EXPECT_TRUE(parsed) << text;
  return parsed ? parsed->as_object().at("traceEvents").as_array() : boost::json::array();
}

std::string brief(const boost::json::value& event) {
  const auto& object = event.as_object();
  std::string text(object.at("ph").as_string());
  if (const auto* name = object.if_contains("name")) text += " " + std::string(name->as_string());
  return text + " " + std::to_string(std::llround(object.at("ts").to_number<double>() * 1000));
}

std::vector<std::string> briefs(const boost::json::array& events) {
  std::vector<std::string> all;
  for (const auto& event : events) all.push_back(brief(event));
  return all;
}

Writer begun() {
  Writer writer({});
  writer.preamble({kTracedThread.process, kTracedThread.thread, 1'000, 100, 0});
  return writer;
}

TEST(XrayTrace, ACallIsABeginAndAnEndInWholeNanoseconds) {
  Writer writer = begun();
  writer.function(Action::kEnter, 1, 0);
  writer.function(Action::kEnter, 2, 1'234'567);
  writer.function(Action::kExit, 2, 1);
  writer.function(Action::kExit, 1, 1);
  EXPECT_THAT(briefs(events_of(writer)),
              ElementsAre("B f1 1000", "B f2 1235567", "E 1235568", "E 1235569"));
}

TEST(XrayTrace, TicksBecomeNanoseconds) {
  Writer writer = begun();
  writer.function(Action::kEnter, 1, 1000);
  EXPECT_THAT(briefs(events_of(writer, {100, 0.5})), ElementsAre("B f1 1500", "E 1500"));
}

TEST(XrayTrace, ArgumentsAndEventsAreWritten) {
  Writer writer = begun();
  writer.function(Action::kEnterWithArguments, 1, 0);
  writer.argument(0xffffffffffffffff);
  writer.custom_event("said \"so\"\n", 1);
  writer.typed_event(7, std::string("\xff\0", 2), 1);
  writer.function(Action::kExit, 1, 1);
  const auto events = events_of(writer);
  ASSERT_THAT(briefs(events),
              ElementsAre("B f1 1000", "i custom event 1001", "i typed event 1002", "E 1003"));
  EXPECT_EQ(boost::json::serialize(events[0].at("args")), R"({"arg0":"18446744073709551615"})");
  EXPECT_EQ(events[1].at("args").at("payload").as_string(), "said \"so\"\n");
  EXPECT_EQ(events[2].at("args").at("type").to_number<int>(), 7);
  EXPECT_EQ(events[2].at("args").at("bytes").to_number<int>(), 2);
}

// A call that had begun before the records contains all others. An outer one begins even earlier.
TEST(XrayTrace, LateRootsContainTheirCallees) {
  Writer writer = begun();
  writer.function(Action::kEnter, 1, 0);
  writer.function(Action::kExit, 1, 10);
  writer.function(Action::kExit, 2, 10);
  writer.function(Action::kExit, 3, 10);
  const auto events = events_of(writer);
  EXPECT_THAT(briefs(events), ElementsAre("B f1 1000", "E 1010", "X f2 999", "X f3 998"));
  EXPECT_DOUBLE_EQ(events[2].at("dur").to_number<double>(), 0.021);
  EXPECT_DOUBLE_EQ(events[3].at("dur").to_number<double>(), 0.032);
}

TEST(XrayTrace, EveryBeginHasAnEndAndTimeDoesntGoBack) {
  Writer writer = begun();
  writer.function(Action::kEnter, 1, 500);
  writer.function(Action::kEnter, 2, 0);
  writer.ticks(50);
  writer.function(Action::kEnter, 3, 0);
  writer.function(Action::kExit, 1, 0);
  writer.function(Action::kEnter, 4, 0);
  EXPECT_THAT(briefs(events_of(writer)),
              ElementsAre("B f1 1500", "B f2 1500", "B f3 1500", "E 1500", "E 1500", "E 1500",
                          "B f4 1500", "E 1500"));
}

TEST(XrayTrace, ATraceWithoutEventsIsValid) {
  Writer writer({});
  EXPECT_THAT(briefs(events_of(writer)), ElementsAre());
}

}  // namespace
}  // namespace profd::xray
