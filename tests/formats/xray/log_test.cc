#include "formats/xray/log.h"

#include <string>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "tests/formats/xray/traces.h"

namespace profd::xray {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::Pair;

constexpr std::uint64_t kBufferBytes = 512;

struct Part {
  std::int32_t thread = 1;
  std::uint64_t ticks = 0;
  std::vector<int> calls;  // 3 enters function 3, -3 leaves it; a tick each
  std::int32_t process = 9;
};

std::string buffer_of(const Part& part, Format format = {}, bool with_cpu = true) {
  Writer writer(format);
  const auto wall_ns = static_cast<std::int64_t>(part.ticks) + 1'000'000;
  if (with_cpu) {
    writer.preamble({part.process, part.thread, wall_ns, part.ticks, 0});
  } else {
    writer.new_buffer(part.thread);
    writer.wall_clock(wall_ns);
  }
  for (const int call : part.calls) {
    writer.function(call > 0 ? Action::kEnter : Action::kExit,
                    static_cast<std::uint32_t>(std::abs(call)), 1);
  }
  return writer.take_buffer(kBufferBytes);
}

std::string trace_of(const std::vector<Part>& parts, Format format = {}) {
  std::string trace = encode_header(header_of(format, kBufferBytes));
  for (const Part& part : parts) trace += buffer_of(part, format);
  return trace;
}

class EveryVersion : public FormatTest {};

INSTANTIATE_TEST_SUITE_P(XrayLog, EveryVersion, every_format(), name_of_format);

// The second buffer is first in the file. Buffers of a thread are read in the order of time.
TEST_P(EveryVersion, BuffersAreReadByTimeAndThread) {
  const auto read = read_traces({trace_of(
      {{1, 5'000'000, {-2, -1}}, {2, 3'000'000, {5, -5}}, {1, 1'000'000, {1, 2}}}, format_)});
  EXPECT_THAT(read.stacks,
              ElementsAre(Pair("1", StackSums{1, 2}), Pair("1;2", StackSums{1, 3'999'999}),
                          Pair("5", StackSums{1, 1})));
  EXPECT_EQ(read.report.buffers, 3U);
  EXPECT_EQ(read.report.issues, decltype(read.report.issues){});
}

TEST_P(EveryVersion, ACopyOfABufferIsSkipped) {
  const auto read = read_traces({trace_of(
      {{1, 1'000'000, {1, 2, -2}}, {1, 2'000'000, {-1}}, {1, 1'000'000, {1, 2, -2}}}, format_)});
  EXPECT_THAT(read.stacks,
              ElementsAre(Pair("1", StackSums{1, 999'999}), Pair("1;2", StackSums{1, 1})));
  EXPECT_EQ(read.report[Issue::kDuplicate], 1U);
}

// The trace is cut at every byte. The records before the cut are read, and the cut is counted.
TEST_P(EveryVersion, ATruncatedTailLosesOnlyTheTail) {
  const std::string first = trace_of({{1, 1'000'000, {1, 2, -2, -1}}}, format_);
  const std::string whole = first + buffer_of({1, 2'000'000, {3, 4, -4, -3}}, format_);
  for (std::size_t bytes = first.size() + 1; bytes < whole.size(); ++bytes) {
    const auto read = read_traces({whole.substr(0, bytes)});
    ASSERT_EQ(read.stacks.count("1;2"), 1U) << bytes;
    EXPECT_EQ(read.stacks.at("1;2").calls, 1U) << bytes;
    std::uint64_t issues = 0;
    for (const std::uint64_t count : read.report.issues) issues += count;
    EXPECT_GT(issues, 0U) << bytes;
  }
}

// Each byte of the middle buffer is changed in several ways. The buffers before and behind it are
// read completely.
TEST_P(EveryVersion, AMalformedBufferLosesOnlyItsOwnRecords) {
  const std::string before = trace_of({{1, 1'000'000, {1, 2, -2, -1}}}, format_);
  const std::string malformed = buffer_of({2, 2'000'000, {3, 4, -4, -3}}, format_);
  const std::string behind = buffer_of({3, 3'000'000, {5, 6, -6, -5}}, format_);
  const std::size_t bytes = format_.version == 1 ? 104 : malformed.size();
  for (std::size_t at = 0; at < bytes; ++at) {
    for (const int mask : {0x01, 0x02, 0x10, 0x80, 0xff}) {
      std::string bent = malformed;
      bent[at] = static_cast<char>(bent[at] ^ mask);
      const auto read = read_traces({before + bent + behind});
      ASSERT_EQ(read.stacks.count("1;2"), 1U) << at << " " << mask;
      ASSERT_EQ(read.stacks.count("5;6"), 1U) << at << " " << mask;
      EXPECT_EQ(read.stacks.at("1;2").calls, 1U) << at << " " << mask;
      EXPECT_EQ(read.stacks.at("5;6").calls, 1U) << at << " " << mask;
    }
  }
}

TEST(XrayLog, InVersionOneTheTimeContinuesFromBufferToBuffer) {
  const Format format{1, std::endian::little};
  const std::string trace = encode_header(header_of(format, kBufferBytes)) +
                            buffer_of({1, 1'000'000, {1, 2}}, format) +
                            buffer_of({1, 3'000'000, {-2, -1}}, format, false);
  const auto read = read_traces({trace});
  EXPECT_THAT(read.stacks, ElementsAre(Pair("1", StackSums{1, 2}), Pair("1;2", StackSums{1, 1})));
  EXPECT_EQ(read.report[Issue::kNoTime], 0U);
}

TEST(XrayLog, SeveralFilesAreReadAsOneTrace) {
  const auto read = read_traces({trace_of({{1, 1'000, {1, -1}}}), trace_of({{2, 900, {1, -1}}})});
  EXPECT_THAT(read.stacks, ElementsAre(Pair("1", StackSums{2, 2})));
}

TEST(XrayLog, AnotherSessionBeginsWithAnEmptyStack) {
  const auto read = read_traces({trace_of({{1, 1'000, {1, 2}}}), trace_of({{1, 9'000, {3, -3}}})});
  EXPECT_THAT(read.stacks, ElementsAre(Pair("1", StackSums{1, 1}), Pair("1;2", StackSums{1, 0}),
                                       Pair("3", StackSums{1, 1})));
  EXPECT_EQ(read.report[Issue::kGap], 1U);
}

// The child's log has the first of its parent's buffers too.
TEST(XrayLog, BuffersThatAForkedChildRepeatsAreReadOnce) {
  const std::string parent =
      trace_of({{1, 1'000, {1, 2}}, {1, 2'000, {-2, -1}}, {1, 3'000, {4, -4}}});
  const std::string child = trace_of({{1, 1'000, {1, 2}}, {7, 2'500, {3, -3}, 10}});
  for (const auto& files : {std::vector{parent, child}, std::vector{child, parent}}) {
    const auto read = read_traces(files);
    EXPECT_THAT(read.stacks, ElementsAre(Pair("1", StackSums{1, 2}), Pair("1;2", StackSums{1, 999}),
                                         Pair("3", StackSums{1, 1}), Pair("4", StackSums{1, 1})));
    EXPECT_EQ(read.report[Issue::kDuplicate], 1U);
    EXPECT_EQ(read.report[Issue::kGap], 0U);
  }
}

// A typed event of version 5 has cut the end of the buffer.
TEST(XrayLog, ATailThatTypedEventsCutIsAGap) {
  Writer writer({});
  writer.preamble({9, 1, 1'000'000, 1'000, 0});
  writer.function(Action::kEnter, 1, 1);
  writer.typed_event(7, "abc", 1);
  writer.function(Action::kEnter, 2, 1);
  writer.function(Action::kExit, 2, 1);
  std::string buffer = writer.take_buffer();
  buffer.resize(buffer.size() - 16);
  buffer[1] = static_cast<char>(buffer.size() - 16);
  const auto read =
      read_traces({encode_header(header_of({})) + buffer + buffer_of({1, 2'000, {3, -3, -1}})});
  EXPECT_THAT(read.stacks, ElementsAre(Pair("1", StackSums{1, 2}), Pair("1;3", StackSums{1, 1})));
  EXPECT_EQ(read.report[Issue::kGap], 1U);
  EXPECT_EQ(read.report[Issue::kLateRoot], 1U);
}

TEST(XrayLog, BytesOutsideOfBuffersAreCountedAndSkipped) {
  const std::string first = trace_of({{1, 1'000, {1, -1}}});
  const std::string second = buffer_of({1, 2'000, {2, -2}});
  struct Case {
    const char* what;
    std::string junk;
    std::uint64_t bytes;
  };
  for (const Case& between : {Case{"zeros", std::string(100, '\0'), 100}, Case{"one byte", "x", 1},
                              Case{"many", std::string(200'000, '\x0f'), 200'000},
                              Case{"another header", encode_header(header_of({})), 0}}) {
    const auto read = read_traces({first + between.junk + second + between.junk});
    EXPECT_THAT(read.stacks, ElementsAre(Pair("1", StackSums{1, 1}), Pair("2", StackSums{1, 1})))
        << between.what;
    if (between.what != std::string("many")) {
      EXPECT_EQ(read.report[Issue::kJunk], 2 * between.bytes) << between.what;
    }
  }
}

TEST(XrayLog, AnEmptyBufferIsCounted) {
  Writer writer({});
  const std::string nothing = writer.take_buffer();
  writer.new_buffer(1);
  writer.wall_clock(1);
  writer.pid(2);
  const std::string preamble = writer.take_buffer();
  const auto read = read_traces(
      {trace_of({{1, 1'000, {1, -1}}}) + nothing + preamble + buffer_of({1, 2'000, {2, -2}})});
  EXPECT_THAT(read.stacks, ElementsAre(Pair("1", StackSums{1, 1}), Pair("2", StackSums{1, 1})));
  EXPECT_EQ(read.report[Issue::kEmptyBuffer], 2U);
}

TEST(XrayLog, ImpossibleSizesAreTolerated) {
  for (const std::uint64_t bytes :
       {std::uint64_t{1} << 60, ~std::uint64_t{0}, std::uint64_t{0}, std::uint64_t{1}}) {
    for (const Format& format : {Format{1, std::endian::little}, Format{5, std::endian::little}}) {
      std::string trace = encode_header(header_of(format, bytes)) +
                          buffer_of({1, 1'000'000, {1, -1}}, format) +
                          buffer_of({1, 2'000'000, {2, -2}}, format);
      const auto read = read_traces({trace});
      EXPECT_THAT(read.stacks, ElementsAre(Pair("1", StackSums{1, 1}), Pair("2", StackSums{1, 1})))
          << bytes << " of version " << format.version;
    }
  }
}

TEST(XrayLog, AFileThatBecameShorterIsCounted) {
  ByteSource source = source_file_of(trace_of({{1, 1'000, {1, -1}}, {1, 2'000, {2, -2}}}));
  Log log;
  ASSERT_TRUE(log.add(source_file_of("")).has_error());
  bool is_short = false;
  const auto whole = source.read_at;
  source.read_at = [&](std::uint64_t offset, std::span<char> to) {
    return is_short && offset > 100 ? 0 : whole(offset, to);
  };
  ASSERT_TRUE(log.add(source));
  log.sort();
  is_short = true;
  Stacks stacks({});
  log.read(stacks);
  EXPECT_THAT(stacked(stacks.finish().tree), ElementsAre(Pair("1", StackSums{1, 1})));
  EXPECT_GT(log.report()[Issue::kUnreadable], 0U);
}

TEST(XrayLog, FilesOfAnotherClockAreRefused) {
  Log log;
  ASSERT_TRUE(log.add(source_file_of(trace_of({{1, 1'000, {1, -1}}}))));
  Header other = header_of({});
  other.frequency_hz = 5;
  const auto added = log.add(source_file_of(encode_header(other)));
  ASSERT_FALSE(added);
  EXPECT_THAT(added.error().message, HasSubstr("5 Hz"));
}

}  // namespace
}  // namespace profd::xray
