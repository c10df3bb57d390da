// The DEBUG and UNWINDING records of a jitdump: which LOAD they belong to, and their content.

#include <utility>
#include <vector>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "formats/jit/jitdump_reader.h"
#include "tests/formats/jit/files.h"
#include "tests/formats/jit/jitdump_writer.h"

namespace profd {
namespace {

using test::kCode;
using test::load_of;
using test::part_of;
using test::read_whole;
using test::ReadJitDump;
using test::set_bytes;
using testing::ElementsAre;
using testing::HasSubstr;
using testing::IsEmpty;

struct Attached {
  std::string name;
  bool debug_info;
  bool unwinding_info;
  friend bool operator==(const Attached&, const Attached&) = default;
};

std::vector<Attached> attached(const ReadJitDump& read) {
  std::vector<Attached> all;
  for (const JitDumpEvent& event : read.events) {
    if (event.kind == JitDumpEventKind::kLoad)
      all.push_back(
          {std::string(event.name), event.debug_info.bytes > 0, event.unwinding_info.bytes > 0});
  }
  return all;
}

const std::string kHdr("\x01\x1b\x03\x3b\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0", 20);
const std::string kFrame("\x14\0\0\0\0\0\0\0\x01zR\0\x01\x78\x10\x01\x1b\x0c\x07\x08\x90\x01\0\0",
                         24);

TEST(JitDumpRecords, JoinsEachLoadWithItsRecords) {
  JitDumpWriter writer;
  writer.header({});
  writer.load(load_of("none", kCode));
  writer.unwinding_info(1, kFrame + kHdr, kHdr.size(), 0);  // the order of V8 and CPython
  writer.debug_info(1, kCode + 0x100, std::vector<JitDumpLine>{{kCode + 0x100, 1, 0, "f"}});
  writer.load(load_of("both", kCode + 0x100));
  writer.unwinding_info(1, kHdr, kHdr.size(), 0);  // a header alone: frame pointers
  writer.load(load_of("frame pointers", kCode + 0x200));
  // LLVM's ORC: all DEBUGs of an object, then their LOADs.
  for (const unsigned i : {3U, 4U, 5U})
    writer.debug_info(1, kCode + 0x100 * i,
                      std::vector<JitDumpLine>{{kCode + 0x100 * i, i, 0, "f"}});
  for (const unsigned i : {3U, 4U, 5U}) writer.load(load_of("orc", kCode + 0x100 * i));
  writer.load(load_of("again", kCode + 0x300));
  const std::string file = writer.take();
  const ReadJitDump read = read_whole(file);
  EXPECT_THAT(attached(read),
              ElementsAre(Attached{"none", false, false}, Attached{"both", true, true},
                          Attached{"frame pointers", false, false}, Attached{"orc", true, false},
                          Attached{"orc", true, false}, Attached{"orc", true, false},
                          Attached{"again", false, false}));
  for (const JitDumpEvent& event : read.events) {
    if (event.name != "orc") continue;
    const auto lines = decode_jit_lines(part_of(file, event.debug_info), read.state, 2);
    ASSERT_EQ(lines.size(), 1U);
    EXPECT_EQ(kCode + 0x100 * lines[0].line, event.address);
  }
}

TEST(JitDumpRecords, ReportsLinesWhoseLoadComesInALaterCall) {
  JitDumpWriter writer;
  writer.header({});
  writer.debug_info(1, kCode, std::vector<JitDumpLine>{{kCode, 1, 0, "f"}});
  writer.unwinding_info(1, kFrame + kHdr, kHdr.size(), 0);
  const std::string first = writer.bytes();
  writer.load(load_of("late", kCode));
  const std::string file = writer.take();
  JitDumpState state;
  const auto before = read_jitdump(first, first.size(), state);
  ASSERT_TRUE(before);
  ASSERT_EQ(before->events.size(), 1U);
  EXPECT_EQ(before->events[0].kind, JitDumpEventKind::kDebugInfo);
  EXPECT_EQ(before->events[0].address, kCode);
  const auto after = read_jitdump(std::string_view(file).substr(state.offset), file.size(), state);
  ASSERT_TRUE(after);
  ASSERT_EQ(after->events.size(), 1U);
  EXPECT_GT(after->events[0].unwinding_info.bytes, 0U);
}

TEST(JitDumpRecords, SplitsUnwindDataInBothOrders) {
  for (const bool header_first : {false, true}) {
    JitDumpWriter writer;
    writer.header({});
    writer.unwinding_info(1, header_first ? kHdr + kFrame : kFrame + kHdr, kHdr.size(), 80);
    writer.load(load_of("f", kCode));
    const std::string file = writer.take();
    const ReadJitDump read = read_whole(file);
    // Unwind data with the header first belongs to a whole object, not to one function.
    EXPECT_EQ(read.events[0].kind == JitDumpEventKind::kUnwindingInfo, header_first);
    const auto info =
        split_unwinding_info(part_of(file, read.events[0].unwinding_info), read.state);
    ASSERT_TRUE(info) << info.error().message;
    EXPECT_EQ(info->eh_frame, kFrame);
    EXPECT_EQ(info->eh_frame_hdr, kHdr);
  }
}

TEST(JitDumpRecords, RefusesMalformedUnwindData) {
  struct Case {
    std::string data;
    std::uint64_t hdr_bytes;
    std::uint64_t data_bytes;
    const char* message;
  };
  for (const Case& c : {Case{kHdr, 20, 20, "frame pointers"}, Case{kFrame, 8, 24, "no header"},
                        Case{kFrame, 24, 25, "exceeds"}, Case{kFrame, 25, 24, "exceeds"},
                        Case{kFrame, 1, ~std::uint64_t{0}, "exceeds"}}) {
    JitDumpWriter writer;
    writer.unwinding_info(1, c.data, c.hdr_bytes, 0);
    std::string record = writer.take();
    record.resize(jitdump::kUnwindingInfoBytes + c.data.size());
    set_bytes(record, 16, c.data_bytes);
    const auto info = split_unwinding_info(record, {});
    ASSERT_FALSE(info) << c.message;
    EXPECT_THAT(info.error().message, HasSubstr(c.message));
  }
}

// The lines of a record with these entries, for code of 0x100 bytes at kCode.
std::vector<JitLine> lines_of(const std::vector<JitDumpLine>& entries, std::string& record,
                              std::int64_t line_bias_votes = 0) {
  JitDumpWriter writer;
  writer.debug_info(1, kCode, entries);
  record = writer.take();
  JitDumpState state;
  state.line_bias_votes = line_bias_votes;
  return decode_jit_lines(record, state, 0x100);
}

// The bias of a file whose records have these distances of their first lines.
std::uint64_t bias_of(const std::vector<std::int64_t>& distances) {
  JitDumpWriter writer;
  writer.header({});
  for (const std::int64_t distance : distances) {
    const std::uint64_t first = kCode + static_cast<std::uint64_t>(distance);
    writer.debug_info(1, kCode,
                      std::vector<JitDumpLine>{{first + 9, 2, 0, "f"}, {first, 1, 0, "f"}});
  }
  return read_whole(writer.bytes()).state.line_bias();
}

TEST(JitDumpLines, MostRecordsDecideOnTheBias) {
  EXPECT_EQ(bias_of({}), 0U);
  for (const std::int64_t distance : {-55, 0, 63, 81, 100}) EXPECT_EQ(bias_of({distance}), 0U);
  for (const std::int64_t distance : {64, 67, 80}) EXPECT_EQ(bias_of({distance}), 64U);
  EXPECT_EQ(bias_of({64, 64, 100}), 64U) << "V8, a prologue without a line";
  EXPECT_EQ(bias_of({72, 84, 44, 52}), 0U) << "HotSpot has one there by chance";
}

TEST(JitDumpLines, TheBiasIsSubtracted) {
  std::string record;
  EXPECT_THAT(lines_of({{kCode + 0x50, 3, 1, "f"}}, record, 5),
              ElementsAre(JitLine{0x10, 3, 1, "f"}));
  EXPECT_THAT(lines_of({{kCode + 0x50, 3, 1, "f"}}, record, -5),
              ElementsAre(JitLine{0x50, 3, 1, "f"}));
}

TEST(JitDumpLines, LinesAreSortedWithinTheCodeWithOneForEachOffset) {
  std::string record;
  EXPECT_THAT(
      lines_of({{kCode + 0x20, 7, 2, "b"},
                {kCode - 55, 4, 0, "a"},  // before the code, as Erlang writes it
                {kCode + 0x10, 5, 0, "a"},
                {kCode + 0x20, 8, 3, "\xff"},  // the file of the line before
                {kCode + 0x30, 0, 0, "a"},     // no line
                {kCode + 0x38, ~0U, 0, "a"},
                {kCode + 0x100, 9, 0, "a"},  // behind the code
                {kCode + 0x17f, 0, 0, ""}},  // an end mark
               record),
      ElementsAre(JitLine{0, 4, 0, "a"}, JitLine{0x10, 5, 0, "a"}, JitLine{0x20, 8, 3, "a"}));
}

TEST(JitDumpLines, TheScriptsNameReplacesOneThatV8HadFreed) {
  const std::string script = "/srv/app/lib/handler of requests.js";
  std::string freed = script;
  freed.replace(0, 16, std::string("\x36\x5d\x03\0\0\0\0\0\xca\xa7\xb6\xe1\xb4\xf9\xac\xd6", 16));
  JitDumpWriter writer;
  writer.debug_info(
      1, kCode,
      std::vector<JitDumpLine>{
          {kCode, 7, 2, freed}, {kCode + 8, 9, 0, freed}, {kCode + 9, 3, 0, "node:path"}});
  const std::string record = writer.take();
  EXPECT_THAT(decode_jit_lines(record, {}, 0x100, script),
              ElementsAre(JitLine{0, 7, 2, script}, JitLine{8, 9, 0, script},
                          JitLine{9, 3, 0, "node:path"}));
  EXPECT_THAT(decode_jit_lines(record, {}, 0x100, "/srv/app/lib/handler of requestz.js"),
              IsEmpty());
  EXPECT_THAT(decode_jit_lines(record, {}, 0x100), IsEmpty());
}

TEST(JitScript, TheScriptFollowsTheFunctionWithoutLineAndColumn) {
  EXPECT_EQ(jit_script_of("JS:*mix /srv/app/lib/with space/busy.js:11:13"),
            "/srv/app/lib/with space/busy.js");
  EXPECT_EQ(jit_script_of("LazyCompile:~ /srv/application/busy.js:7"), "/srv/application/busy.js");
  EXPECT_EQ(jit_script_of("JS:^requireBuiltin node:internal/bootstrap/realm:420:24"),
            "node:internal/bootstrap/realm");
  for (const char* none :
       {"", " ", "JS:*f", "JS:*f :1:20", "JS:*f /short.js:1:2", "Builtin:Abort"}) {
    EXPECT_EQ(jit_script_of(none), "") << none;
  }
}

TEST(JitDumpLines, ALineWhoseNameEndsInGarbageIsLeftOut) {
  std::string record;
  const JitDumpLine good{kCode, 1, 0, "f"};
  const JitDumpLine cut{kCode + 4, 7, 0, "~CF#"};  // the part of a name before a NUL
  const JitDumpLine late{kCode + 8, 2, 0, "f"};
  for (const std::uint64_t address : {kCode - 0x81, kCode + 0x181, std::uint64_t{0},
                                      ~std::uint64_t{0}, std::uint64_t{0xa54a9d3ff6c3f3d1}}) {
    EXPECT_THAT(lines_of({good, cut, {address, 1, 0, "f"}, late}, record),
                ElementsAre(JitLine{0, 1, 0, "f"}));
    EXPECT_THAT(lines_of({cut, {address, 1, 0, "f"}, late}, record), IsEmpty());
  }
  JitDumpWriter writer;
  writer.debug_info(1, kCode, std::vector<JitDumpLine>{good});
  std::string lying = writer.take();
  set_bytes(lying, 24, std::uint64_t{1} << 60);
  EXPECT_EQ(decode_jit_lines(lying, {}, 0x100).size(), 1U) << "a count of 2^60";
  EXPECT_THAT(decode_jit_lines(lying.substr(0, lying.size() - 1), {}, 0x100), IsEmpty());
  EXPECT_THAT(decode_jit_lines("", {}, 0x100), IsEmpty());
}

}  // namespace
}  // namespace profd
