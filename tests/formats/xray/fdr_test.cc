#include <string>
#include <tuple>
#include <vector>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "formats/xray/fdr_reader.h"
#include "tests/formats/xray/fdr_writer.h"
#include "tests/formats/xray/traces.h"

namespace profd::xray {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;

// Describes each record in a line.
struct Describer : Handler {
  std::vector<std::string> lines;

  void on_function(Action action, std::uint32_t id, std::uint64_t ticks) {
    constexpr const char* kNames[] = {"enter", "exit", "tail", "args"};
    lines.push_back(std::string(kNames[static_cast<int>(action)]) + " " + std::to_string(id) +
                    " at " + std::to_string(ticks));
  }
  void on_argument(std::uint64_t value) { lines.push_back("argument " + std::to_string(value)); }
  void on_event(const Event& event) {
    lines.push_back((event.is_typed ? "typed " + std::to_string(event.type) : "custom") + " " +
                    std::string(event.payload.substr(0, 8)) + " of " +
                    std::to_string(event.payload_bytes) + " at " + std::to_string(event.ticks));
  }
  void on_wall_clock(std::int64_t ns) { lines.push_back("wall " + std::to_string(ns)); }
  void on_new_buffer(std::int32_t id) { lines.push_back("thread " + std::to_string(id)); }
  void on_pid(std::int32_t id) { lines.push_back("process " + std::to_string(id)); }
  void on_new_cpu(std::uint16_t cpu) { lines.push_back("cpu " + std::to_string(cpu)); }
};

std::vector<std::string> lines_of(const Format& format, const std::string& records) {
  Describer describer;
  Position position;
  (void)decode_records(format, records, position, describer);
  return describer.lines;
}

class EveryFormat : public FormatTest {};

INSTANTIATE_TEST_SUITE_P(XrayFdr, EveryFormat, every_format(), name_of_format);

TEST_P(EveryFormat, AHeaderReadsAsItWasWritten) {
  const Header header{format_, true, false, 2'596'124'000, 16384};
  const auto read = read_header(encode_header(header));
  ASSERT_TRUE(read) << read.error().message;
  EXPECT_EQ(*read, header);
}

TEST_P(EveryFormat, FunctionsAndMetadataReadAsTheyWereWritten) {
  Writer writer(format_);
  writer.preamble({77, 78, 5'000'007'000, 1'000'000, 3});
  writer.function(Action::kEnter, 1, 0);
  writer.function(Action::kEnterWithArguments, kMaxFunctionId, 10);
  writer.argument(0xfedcba9876543210);
  writer.ticks(std::uint64_t{1} << 63);
  writer.function(Action::kTailExit, 2, 0xffffffff);
  writer.new_cpu(255, 42);
  writer.function(Action::kExit, 1, 1);
  std::vector<std::string> expected{"thread 78", "wall 5000007000"};
  if (format_.version >= 3) expected.emplace_back("process 77");
  for (const char* record :
       {"cpu 3", "enter 1 at 1000000", "args 268435455 at 1000010", "argument 18364758544493064720",
        "tail 2 at 9223372041149743103", "cpu 255", "exit 1 at 43"}) {
    expected.emplace_back(record);
  }
  EXPECT_EQ(lines_of(format_, writer.take_records()), expected);
}

TEST_P(EveryFormat, ChunksOfAnyLengthGiveTheSameRecords) {
  Writer writer(format_);
  writer.preamble({77, 78, 5'000'007'000, 1'000'000, 3});
  writer.function(Action::kEnter, 1, 5);
  writer.custom_event("payload of odd size", 100);
  writer.function(Action::kExit, 1, 7);
  const std::string records = writer.take_records();
  const auto whole = lines_of(format_, records);
  for (std::size_t chunk = 40; chunk < records.size(); ++chunk) {
    Describer describer;
    Position position;
    std::string held;
    for (std::size_t at = 0; at < records.size(); at += chunk) {
      held += records.substr(at, chunk);
      held.erase(0, decode_records(format_, held, position, describer).bytes);
    }
    EXPECT_EQ(describer.lines, whole) << chunk;
    EXPECT_EQ(held, "");
  }
}

TEST_P(EveryFormat, ACutRecordIsNotDecoded) {
  Writer writer(format_);
  writer.preamble({1, 2, 3'000, 4, 0});
  writer.function(Action::kEnter, 9, 1);
  const std::string records = writer.take_records();
  for (std::size_t cut = 1; cut < 8; ++cut) {
    Describer describer;
    Position position;
    const std::string_view bytes = std::string_view(records).substr(0, records.size() - cut);
    const Decoded decoded = decode_records(format_, bytes, position, describer);
    EXPECT_EQ(decoded.bytes, records.size() - 8);
    EXPECT_EQ(decoded.stop, Stop::kOutOfBytes);
  }
}

// The layouts of LLVM's records in each version (formats/xray/fdr_format.h).
TEST(XrayFdrEvents, HaveTheTimeOfTheirVersion) {
  struct Case {
    std::uint16_t version;
    const char* custom;
    const char* typed;
  };
  for (const Case& expected : {Case{2, "custom hey of 3 at 1000", "typed 7 ho of 2 at 77"},
                               Case{3, "custom hey of 3 at 1000", "typed 7 ho of 2 at 77"},
                               Case{4, "custom hey of 3 at 66", "typed 7 ho of 2 at 77"},
                               Case{5, "custom hey of 3 at 1066", "typed 7 ho of 2 at 1143"}}) {
    const Format format{expected.version, std::endian::little};
    Writer writer(format);
    writer.ticks(1000);
    writer.custom_event("hey", 66);
    writer.typed_event(7, "ho", 77);
    EXPECT_THAT(lines_of(format, writer.take_records()),
                ElementsAre(expected.custom, expected.typed))
        << expected.version;
  }
}

TEST(XrayFdrEvents, InVersionFiveMoveTheTimeForwardAndBack) {
  Writer writer({});
  writer.ticks(1000);
  writer.custom_event("a", static_cast<std::uint64_t>(-30));
  writer.function(Action::kEnter, 1, 5);
  EXPECT_THAT(lines_of({}, writer.take_records()),
              ElementsAre("custom a of 1 at 970", "enter 1 at 975"));
}

TEST(XrayFdrEvents, OfAnySizeAreSkippedAndShownInPart) {
  Writer writer({});
  writer.ticks(1);
  writer.custom_event(std::string(100'000, 'x'), 1);
  writer.function(Action::kEnter, 1, 1);
  const std::string records = writer.take_records();
  Describer describer;
  Position position;
  std::string held;
  for (std::size_t at = 0; at < records.size(); at += 5000) {
    held += records.substr(at, 5000);
    held.erase(0, decode_records({}, held, position, describer).bytes);
  }
  EXPECT_THAT(describer.lines, ElementsAre("custom xxxxxxxx of 100000 at 2", "enter 1 at 3"));
}

TEST(XrayFdrReader, StopsAtMalformedRecords) {
  struct Case {
    const char* what;
    std::uint16_t version;
    std::string bytes;
  };
  const std::string zeros(15, '\0');
  for (const Case& change : {
           Case{"an unknown kind", 5, "\x15" + zeros},
           Case{"an unknown action", 5, std::string("\x08\0\0\0\0\0\0\0", 8)},
           Case{"an end of buffer in version 5", 5, "\x03" + zeros},
           Case{"a buffer's size in version 1", 1, "\x0f" + zeros},
           Case{"another buffer's begin", 5, "\x0f" + zeros},
           Case{"a process in version 2", 2, "\x13" + zeros},
           Case{"a typed event in version 1", 1, "\x11" + zeros},
           Case{"a negative payload", 5, std::string("\x0b\xff\xff\xff\xff", 5) + zeros},
       }) {
    Writer writer({change.version, std::endian::little});
    writer.ticks(5);
    writer.function(Action::kEnter, 3, 1);
    const std::string good = writer.take_records();
    Describer describer;
    Position position;
    const Decoded decoded = decode_records({change.version, std::endian::little},
                                           good + change.bytes, position, describer);
    EXPECT_EQ(decoded.stop, Stop::kMalformed) << change.what;
    EXPECT_EQ(decoded.bytes, good.size()) << change.what;
    EXPECT_THAT(describer.lines, ElementsAre("enter 3 at 6")) << change.what;
  }
}

TEST(XrayFdrReader, RefusesOtherFilesAndNamesTheirFormat) {
  const auto header = [](std::uint16_t version, char type) {
    std::string bytes = encode_header({{version, std::endian::little}, true, true, 1, 1});
    bytes[2] = type;
    return bytes;
  };
  struct Case {
    std::string bytes;
    ErrorCode code;
    const char* message;
  };
  for (const Case& refused : {
           Case{"", ErrorCode::kMalformed, "shorter than a header"},
           Case{header(5, 1).substr(0, 31), ErrorCode::kMalformed, "shorter than a header"},
           Case{std::string(32, 'x'), ErrorCode::kMalformed, "does not begin with a header"},
           Case{header(0, 1), ErrorCode::kMalformed, "version 0"},
           Case{header(6, 1), ErrorCode::kMalformed, "version 6"},
           Case{header(3, 0), ErrorCode::kMalformed, "basic mode"},
           Case{header(1, 2), ErrorCode::kMalformed, "profile"},
       }) {
    const auto read = read_header(refused.bytes);
    ASSERT_FALSE(read) << refused.message;
    EXPECT_EQ(read.error().code, refused.code) << refused.message;
    EXPECT_THAT(read.error().message, HasSubstr(refused.message));
  }
}

}  // namespace
}  // namespace profd::xray
