#include "formats/jit/jitdump_reader.h"

#include <bit>
#include <filesystem>
#include <functional>
#include <sstream>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "tests/formats/jit/files.h"
#include "tests/formats/jit/jitdump_writer.h"
#include "tests/formats/readers.h"

namespace profd {
namespace {

using test::data_file;
using test::kCode;
using test::load_of;
using test::part_of;
using test::read_growing;
using test::read_whole;
using test::ReadJitDump;
using test::set_bytes;
using testing::ElementsAre;
using testing::HasSubstr;

// A file of three LOADs, the second of which a test may change.
struct ThreeLoads {
  std::string file;
  std::size_t second = 0;
  std::size_t third = 0;
};

ThreeLoads three_loads(std::endian order = std::endian::little) {
  JitDumpWriter writer(order);
  writer.header({});
  writer.load(load_of("one", kCode));
  ThreeLoads made;
  made.second = writer.bytes().size();
  writer.load(load_of("two", kCode + 0x100));
  made.third = writer.bytes().size();
  writer.load(load_of("three", kCode + 0x200));
  made.file = writer.take();
  return made;
}

TEST(JitDumpReader, ReadsWhatTheWriterWroteInBothByteOrdersAndVersions) {
  for (const std::endian order : {std::endian::little, std::endian::big}) {
    for (const std::uint32_t version : {1U, 2U}) {
      for (const std::uint32_t header_bytes : {40U, 48U, 81U, 4096U}) {
        JitDumpWriter writer(order);
        writer.header({.version = version,
                       .total_bytes = header_bytes,
                       .elf_machine = 0,
                       .pad = 0xdeadbeef,
                       .pid = 77,
                       .timestamp = 1700000000000000,
                       .flags = 0});
        writer.load(load_of("f", kCode, "code"));
        writer.move({.timestamp = 2000,
                     .pid = 7,
                     .tid = 9,
                     .old_address = kCode,
                     .new_address = kCode + 64,
                     .code_bytes = 4,
                     .code_index = 1});
        writer.close(3000);
        const std::string file = writer.take();
        const ReadJitDump read = read_whole(file);
        EXPECT_EQ(read.all_malformed(), 0U);
        ASSERT_EQ(read.events.size(), 3U) << header_bytes;
        EXPECT_EQ(read.state.pid, 77U);
        EXPECT_EQ(read.state.last_timestamp, 3000U) << "the header has another clock";
        const JitDumpEvent& load = read.events[0];
        EXPECT_EQ(load.kind, JitDumpEventKind::kLoad);
        EXPECT_EQ(load.timestamp, 1000U);
        EXPECT_EQ(load.pid, 7U);
        EXPECT_EQ(load.address, kCode);
        EXPECT_EQ(load.code_bytes, 4U);
        EXPECT_EQ(load.name, "f");
        EXPECT_EQ(part_of(file, load.code), "code");
        const JitDumpEvent& move = read.events[1];
        EXPECT_EQ(move.kind, JitDumpEventKind::kMove);
        EXPECT_EQ(move.old_address, kCode);
        EXPECT_EQ(move.address, kCode + 64);
        EXPECT_EQ(move.code_bytes, 4U);
        EXPECT_EQ(read.events[2].kind, JitDumpEventKind::kClose);
      }
    }
  }
}

// The text that jitdump_oracle.py prints.
std::string as_oracle(std::string_view file, const ReadJitDump& read) {
  const auto hex = [](std::string_view bytes) {
    std::string text;
    for (const char c : bytes) {
      char digits[3];
      std::snprintf(digits, sizeof digits, "%02x", static_cast<unsigned char>(c));
      text += digits;
    }
    return text;
  };
  std::map<std::uint64_t, JitFileRange> expected;
  for (const JitDumpEvent& event : read.events) {
    if (event.kind == JitDumpEventKind::kDebugInfo) expected[event.address] = event.debug_info;
  }
  std::ostringstream text;
  for (const JitDumpEvent& event : read.events) {
    if (event.kind != JitDumpEventKind::kLoad) continue;
    text << std::dec << event.timestamp << ' ' << event.pid << ' ' << std::hex << event.address
         << ' ' << std::dec << event.code_bytes << ' ' << event.code.offset << ' '
         << event.unwinding_info.offset << ' ' << hex(event.name) << '\n';
    const JitFileRange& info =
        event.debug_info.bytes > 0 ? event.debug_info : expected[event.address];
    for (const JitLine& line : decode_jit_lines(part_of(file, info), read.state, event.code_bytes))
      text << "  +" << line.code_offset << ' ' << line.line << ' ' << hex(line.file) << '\n';
  }
  return text.str();
}

TEST(JitDumpReader, AgreesWithAnotherReaderOnFilesOfRealRuntimes) {
  for (const char* name : {"bun.dump", "cpython.dump", "erlang.dump", "java.dump", "node.dump",
                           "node_unwinding.dump", "php.dump"}) {
    const std::string data = std::string(FORMATS_TEST_DATA);
    const std::string expected = test::output_of(
        "/usr/bin/python3 " + data + "/../jit/jitdump_oracle.py " + data + "/jit/" + name);
    const std::string file = data_file(name);
    const ReadJitDump whole = read_whole(file);
    EXPECT_EQ(whole.all_malformed(), 0U) << name;
    EXPECT_GT(whole.events.size(), 15U) << name;
    EXPECT_EQ(as_oracle(file, whole), expected) << name;
    EXPECT_EQ(as_oracle(file, read_growing(file, 61)), expected) << name << ", as it grows";
  }
}

TEST(JitDumpReader, ReadsExactlyTheCompleteRecordsWhereverTheFileIsCut) {
  const std::string file = data_file("php.dump").substr(0, 3000);
  const ReadJitDump all = read_whole(file);
  for (std::size_t cut = 0; cut <= file.size(); ++cut) {
    const std::string_view start = std::string_view(file).substr(0, cut);
    const ReadJitDump read = read_whole(start);
    ASSERT_EQ(read.all_malformed(), 0U) << cut;
    ASSERT_LE(read.events.size(), all.events.size());
    for (const JitDumpEvent& event : read.events)
      ASSERT_LE(event.code.offset + event.code.bytes, cut);
  }
}

TEST(JitDumpReader, WaitsAtZerosUntilTheyAreOverwritten) {
  const ThreeLoads made = three_loads();
  std::string file = made.file;
  file.replace(made.second, file.size(), std::string(5000, '\0'));
  JitDumpState state;
  auto read = read_jitdump(file, file.size(), state);
  ASSERT_TRUE(read);
  EXPECT_EQ(read->events.size(), 1U);
  EXPECT_EQ(state.offset, made.second);
  file.replace(made.second, made.file.size() - made.second, made.file.substr(made.second));
  read = read_jitdump(std::string_view(file).substr(state.offset), file.size(), state);
  ASSERT_TRUE(read);
  EXPECT_EQ(read->events.size(), 2U);
  EXPECT_EQ(state.offset, made.file.size());
  EXPECT_EQ(read->malformed, decltype(read->malformed){});
}

TEST(JitDumpReader, DropsAMalformedRecordAloneAndCountsWhy) {
  struct Case {
    const char* name;
    JitDumpFault reason;
    std::function<void(std::string& file, std::size_t record)> change;
  };
  const std::size_t record_bytes = jitdump::kLoadBytes + sizeof "two" + 2;
  for (const Case& c : {
           Case{"code beyond the record", JitDumpFault::kBadCodeSize,
                [](auto&f, auto at) { set_bytes(f, at + 40, std::uint64_t{3}); }},
           Case{"a huge code_size", JitDumpFault::kBadAddress,
                [](auto&f, auto at) { set_bytes(f, at + 40, std::uint64_t{1} << 40); }},
           Case{"a code_size that wraps", JitDumpFault::kBadAddress,
                [](auto&f, auto at) { set_bytes(f, at + 40, ~std::uint64_t{0}); }},
           Case{"code in the kernel", JitDumpFault::kBadAddress,
                [](auto&f, auto at) { set_bytes(f, at + 32, 0xffffffff81000000); }},
           Case{"no end of the name", JitDumpFault::kBadName,
                [&](auto&f, auto at) {
                  f.replace(at + 56, record_bytes - 56, record_bytes - 56, 'x');
                }},
           Case{"an unknown id", JitDumpFault::kUnknownRecord,
                [](auto&f, auto at) { set_bytes(f, at, std::uint32_t{5}); }},
           Case{"an absurd id", JitDumpFault::kUnknownRecord,
                [](auto&f, auto at) { set_bytes(f, at, ~std::uint32_t{0}); }},
           Case{"too small for a MOVE", JitDumpFault::kShortRecord,
                [](auto&f, auto at) { set_bytes(f, at, std::uint32_t{1}); }},
           Case{"unwind data beyond the record", JitDumpFault::kBadSizes,
                [](auto&f, auto at) { set_bytes(f, at, std::uint32_t{4}); }},
           Case{"2^60 lines", JitDumpFault::kBadSizes,
                [](auto&f, auto at) {
                  set_bytes(f, at, std::uint32_t{2});
                  set_bytes(f, at + 24, std::uint64_t{1} << 60);
                }},
       }) {
    ThreeLoads made = three_loads();
    c.change(made.file, made.second);
    for (const std::size_t step : {std::size_t{1}, made.file.size()}) {
      const ReadJitDump read = read_growing(made.file, step);
      EXPECT_THAT(read.names(), ElementsAre("one", "three")) << c.name;
      EXPECT_EQ(read.malformed_by(c.reason), 1U) << c.name;
      EXPECT_EQ(read.all_malformed(), 1U) << c.name;
    }
  }
}

TEST(JitDumpReader, EndsReadingWhereTheNextRecordCantBeFound) {
  for (const std::uint32_t size : {1U, 15U}) {
    ThreeLoads made = three_loads();
    set_bytes(made.file, made.second + 4, size);
    const ReadJitDump read = read_growing(made.file, 7);
    EXPECT_THAT(read.names(), ElementsAre("one"));
    EXPECT_EQ(read.malformed_by(JitDumpFault::kLostFrame), 1U);
    EXPECT_TRUE(read.state.frame_lost);
  }
}

TEST(JitDumpReader, SkipsARecordOverTheSizeLimit) {
  ThreeLoads made = three_loads();
  std::string file = made.file.substr(0, made.third);
  const std::uint32_t huge = (64U << 20) + 1;
  set_bytes(file, made.second + 4, huge);
  JitDumpState state;
  const auto read = read_jitdump(file, file.size(), state);
  ASSERT_TRUE(read);
  EXPECT_EQ(read->malformed[static_cast<std::size_t>(JitDumpFault::kHugeRecord)], 1U);
  EXPECT_EQ(state.offset, made.second + huge);
  const std::string rest = made.file.substr(made.third);
  const auto next = read_jitdump(rest, state.offset + rest.size(), state);
  ASSERT_TRUE(next);
  ASSERT_EQ(next->events.size(), 1U);
  EXPECT_EQ(next->events[0].name, "three");
}

TEST(JitDumpReader, ReadsCodeThatIsLargerThanOnePart) {
  JitDumpWriter writer;
  writer.header({});
  const std::string code(10'000'000, '\x90');
  writer.load(load_of("large", kCode, code));
  writer.load(load_of("next", kCode + code.size()));
  const std::string file = writer.take();
  const ReadJitDump read = read_growing(file, file.size(), kMinJitDumpRead);
  EXPECT_THAT(read.names(), ElementsAre("large", "next"));
  EXPECT_EQ(read.events[0].code.bytes, code.size());
}

TEST(JitDumpReader, AcceptsCodeWithoutBytes) {
  JitDumpWriter writer;
  writer.header({});
  JitDumpLoad load = load_of("stub", kCode, "");
  load.code_bytes = 4096;
  writer.load(load);
  const std::string file = writer.take();
  const ReadJitDump read = read_whole(file);
  ASSERT_EQ(read.events.size(), 1U);
  EXPECT_EQ(read.events[0].code_bytes, 4096U);
  EXPECT_EQ(read.events[0].code, JitFileRange{});
  EXPECT_EQ(read.all_malformed(), 0U);
}

TEST(JitDumpReader, KeepsNamesOfAnyBytesAndCutsLongOnes) {
  const std::string longest(jitdump::kMaxNameBytes, 'n');
  const std::string strange = "../\x1b[31m\n\xff\xfe [x] \"y\"";
  for (const auto& [name, kept] : {std::pair<std::string, std::string>{"", ""},
                                   {strange, strange},
                                   {longest + "n", longest},
                                   {std::string(jitdump::kMaxNameScan - 1, 'n'), longest}}) {
    JitDumpWriter writer;
    writer.header({});
    writer.load(load_of(name, kCode, "code"));
    const std::string file = writer.take();
    const ReadJitDump read = read_whole(file);
    ASSERT_EQ(read.events.size(), 1U) << name.size();
    EXPECT_EQ(read.events[0].name, kept);
    EXPECT_EQ(part_of(file, read.events[0].code), "code");
  }
  JitDumpWriter writer;
  writer.header({});
  writer.load(load_of(std::string(jitdump::kMaxNameScan, 'n'), kCode));
  EXPECT_EQ(read_whole(writer.bytes()).malformed_by(JitDumpFault::kBadName), 1U);
}

TEST(JitDumpReader, RefusesAFileThatIsNoJitdump) {
  struct Case {
    std::string file;
    const char* message;
  };
  JitDumpWriter version;
  version.header({.version = 3});
  JitDumpWriter small;
  small.header({.total_bytes = 39});
  JitDumpWriter large;
  large.header({.total_bytes = 4097});
  for (const Case& c : {Case{"\x7f"
                             "ELF",
                             "magic"},
                        Case{std::string(100, '\0'), "magic"}, Case{version.take(), "version 3"},
                        Case{small.take(), "39 bytes"}, Case{large.take(), "4097 bytes"}}) {
    JitDumpState state;
    const auto read = read_jitdump(c.file, c.file.size(), state);
    ASSERT_FALSE(read) << c.message;
    EXPECT_EQ(read.error().code, ErrorCode::kMalformed);
    EXPECT_THAT(read.error().message, HasSubstr(c.message));
  }
}

TEST(JitDumpReader, ReadsHostileFilesByTheRules) {
  struct Case {
    const char* name;
    std::vector<std::string> functions;
    std::uint64_t malformed;
  };
  for (const Case& c : {Case{"badsize", {}, 1}, Case{"hdr48", {"ext"}, 0}, Case{"huge", {}, 1},
                        Case{"trav", {"../../../x\x1b[31m\n"}, 0}, Case{"v2", {"v2"}, 0},
                        Case{"zero", {"ok"}, 0}}) {
    const std::string file = data_file(std::string("hostile-") + c.name + ".dump");
    const ReadJitDump read = read_growing(file, 1);
    EXPECT_EQ(read.names(), c.functions) << c.name;
    EXPECT_EQ(read.all_malformed(), c.malformed) << c.name;
  }
}

TEST(JitDumpReader, ReadsRecordsAfterCloseOfAForkedWriter) {
  JitDumpWriter writer;
  writer.header({});
  writer.load(load_of("parent", kCode));
  writer.close(2000);
  JitDumpLoad child = load_of("child", kCode + 0x100);
  child.pid = 9;
  writer.load(child);
  writer.close(3000);
  const ReadJitDump read = read_whole(writer.bytes());
  EXPECT_THAT(read.names(), ElementsAre("parent", "child"));
  EXPECT_EQ(read.events[2].pid, 9U);
}

TEST(JitDumpReader, DistinguishesTimeStampCountsFromNanoseconds) {
  for (const std::uint64_t flags : {0U, 1U}) {
    JitDumpWriter writer;
    writer.header({.flags = flags});
    EXPECT_EQ(read_whole(writer.bytes()).state.has_arch_timestamps(), flags == 1);
  }
}

// The values of a machine of 2.5 GHz: mult / 2^shift nanoseconds a tick.
TEST(JitDumpReader, ConvertsTimeStampCountsWithoutOverflow) {
  const TscConversion conversion{.time_zero = 5, .time_mult = 429496730, .time_shift = 30};
  EXPECT_EQ(tsc_to_ns(0, conversion), 5U);
  EXPECT_EQ(tsc_to_ns(2'500'000'000, conversion), 1'000'000'005U);
  const std::uint64_t year = std::uint64_t{2'500'000'000} * 86400 * 365;
  EXPECT_NEAR(static_cast<double>(tsc_to_ns(year, conversion)), 86400e9 * 365, 1e9);
}

}  // namespace
}  // namespace profd
