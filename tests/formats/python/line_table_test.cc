// Line tables of CPython. The oracle is each interpreter itself, on code of its standard library;
// the tables by hand are from the documents that line_table.h names.

#include "formats/python/line_table.h"

#include <algorithm>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <filesystem>
#include <sstream>
#include <string>
#include <string_view>
#include <vector>

#include <gtest/gtest.h>

#include "tests/formats/readers.h"

namespace profd::python {
namespace {

namespace fs = std::filesystem;

// The line of each unit; 0 before the first entry.
std::vector<std::uint32_t> lines_by_unit(const std::vector<InterpretedLine>& lines,
                                         std::uint32_t units) {
  std::vector<std::uint32_t> by_unit(units);
  for (std::size_t i = 0; i < lines.size(); ++i) {
    const std::uint32_t end = i + 1 < lines.size() ? lines[i + 1].position : units;
    for (std::uint32_t unit = lines[i].position; unit < std::min(end, units); ++unit) {
      by_unit[unit] = lines[i].line;
    }
  }
  return by_unit;
}

std::string bytes_of_hex(const std::string& hex) {
  std::string bytes;
  bytes.reserve(hex.size() / 2);
  for (std::size_t i = 0; i + 1 < hex.size(); i += 2) {
    bytes.push_back(static_cast<char>(std::strtoul(hex.substr(i, 2).c_str(), nullptr, 16)));
  }
  return bytes;
}

// "0:10,3:11"
std::vector<InterpretedLine> lines_of_text(const std::string& text) {
  std::vector<InterpretedLine> lines;
  std::istringstream ranges(text);
  for (std::string range; std::getline(ranges, range, ',');) {
    InterpretedLine line;
    if (std::sscanf(range.c_str(), "%u:%u", &line.position, &line.line) == 2) lines.push_back(line);
  }
  return lines;
}

struct OracleCode {
  std::uint32_t first_line = 0;
  std::uint32_t units = 0;
  std::string table;
  std::vector<InterpretedLine> lines;
};

struct OracleCodes {
  unsigned minor = 0;
  std::vector<OracleCode> codes;
};

OracleCodes ask(const std::string& python) {
  std::istringstream answer(test::output_of(python + " -B -W ignore " PYTHON_LINES_ORACLE));
  OracleCodes all;
  answer >> all.minor;
  std::string table;
  std::string lines;
  for (OracleCode code; answer >> code.first_line >> code.units >> table >> lines;) {
    code.table = bytes_of_hex(table);
    code.lines = lines_of_text(lines);
    all.codes.push_back(code);
  }
  return all;
}

void expect_lines_of(const std::string& python) {
  SCOPED_TRACE(python);
  const OracleCodes all = ask(python);
  ASSERT_GE(all.minor, 8U);
  ASSERT_GT(all.codes.size(), 500U);
  std::uint64_t units = 0;
  for (const OracleCode& code : all.codes) {
    const auto ours = decode_lines(code.table, all.minor, code.first_line, code.units);
    ASSERT_LE(ours.size(), kMaxInterpretedLines);
    ASSERT_EQ(lines_by_unit(ours, code.units), lines_by_unit(code.lines, code.units))
        << "the code object at line " << code.first_line;
    units += code.units;
  }
  std::printf("3.%u: %zu code objects, %llu units\n", all.minor, all.codes.size(),
              static_cast<unsigned long long>(units));
}

// A doubled or halved position in one version, a kind of entry that is read with the wrong number
// of bytes, and a running line that an entry without a line changes, all fail these.
TEST(PythonLineTableTest, OfTheHostsInterpreterAreItsOwn) { expect_lines_of("/usr/bin/python3"); }

TEST(PythonLineTableTest, OfOtherVersionsAreTheirOwn) {
  const char* const home = std::getenv("HOME");
  const fs::path versions = fs::path(home == nullptr ? "/root" : home) / ".pyenv/versions";
  std::error_code absent;
  unsigned asked = 0;
  for (const auto& entry : fs::directory_iterator(versions, absent)) {
    unsigned minor = 0;
    const std::string name = entry.path().filename();
    if (std::sscanf(name.c_str(), "3.%u.", &minor) != 1 || minor < 8 || minor > 15) continue;
    expect_lines_of(entry.path() / "bin/python3");
    ++asked;
  }
  if (asked == 0) GTEST_SKIP() << "NOT TESTED: other versions. There are none in " << versions;
}

struct TableCase {
  const char* name;
  unsigned minor;
  std::string_view table;
  std::vector<std::uint32_t> lines;  // of each unit; the first line of the code is 10
};

using std::string_view_literals::operator""sv;

std::vector<TableCase> table_cases() {
  return {
      {"lnotab: two deltas", 9, "\x02\x01\x04\x02"sv, {10, 11, 11, 13}},
      {"lnotab: deltas of one position add up", 8, "\x02\x7f\x00\x7f"sv, {10, 264}},
      {"lnotab: a line that goes back", 9, "\x02\xff"sv, {10, 9, 9}},
      {"lnotab: empty", 8, ""sv, {10, 10}},
      {"3.10: a range without a line",
       10,
       "\x02\x00\x04\x01\x02\x80\x02\xff"sv,
       {10, 11, 11, 0, 10}},
      {"3.10: empty ranges move the line", 10, "\x00\x7f\x00\x05\x02\x00"sv, {142}},
      {"short form and one-line form", 11, "\x80\x00\xd9\x00\x00"sv, {10, 11, 11}},
      {"one-line form, by two lines", 13, "\xe0\x00\x00"sv, {12}},
      {"without columns, a line that goes back", 12, "\xe8\x07"sv, {7}},
      {"long form, a varint of two bytes", 14, "\xf0\x48\x03\x00\x00\x00"sv, {110}},
      {"no line, and the running one stays", 11, "\xf8\x80\x00"sv, {0, 10}},
      {"eight units in an entry",
       15,
       "\x87\x00\xd8\x00\x00"sv,
       {10, 10, 10, 10, 10, 10, 10, 10, 11}},
      {"a line below 1", 11, "\xe8\x29"sv, {0}},
  };
}

TEST(PythonLineTableTest, ByHandFromTheDocuments) {
  for (const TableCase& one : table_cases()) {
    const auto units = static_cast<std::uint32_t>(one.lines.size());
    EXPECT_EQ(lines_by_unit(decode_lines(one.table, one.minor, 10, units), units), one.lines)
        << one.name;
  }
}

// What holds for any bytes: sorted, each position once, within the units and the limit.
void expect_sound(std::string_view table, unsigned minor, std::uint32_t units) {
  const auto lines = decode_lines(table, minor, 10, units);
  ASSERT_LE(lines.size(), kMaxInterpretedLines);
  for (std::size_t i = 0; i < lines.size(); ++i) {
    if (units != 0) {
      ASSERT_LT(lines[i].position, units);
    }
    if (i > 0) {
      ASSERT_LT(lines[i - 1].position, lines[i].position);
    }
  }
}

TEST(PythonLineTableTest, MalformedOnesEndEarly) {
  const std::string long_varint = "\xe8" + std::string(12, '\x7f') + "\x01";
  std::string storm;  // more entries than the limit
  for (int i = 0; i < 20'000; ++i) storm += i % 2 == 0 ? "\xd8\x01\x01" : "\x02\x01\x81";
  const std::string_view tables[] = {"\xf0"sv, "\xf0\x48"sv, "\xe8\x7f"sv, "\x80"sv, "\xd8\x00"sv,
                                     "\x02"sv, "\x00\x00"sv, long_varint,  storm};
  for (unsigned minor = 8; minor <= 15; ++minor) {
    for (const std::string_view table : tables) {
      for (const std::uint32_t units : {0U, 1U, 3U, 1U << 20}) {
        SCOPED_TRACE(minor);
        expect_sound(table, minor, units);
      }
    }
    expect_sound(std::string(8192, '\xff'), minor, 0);
    expect_sound(std::string(8192, '\0'), minor, 0);
  }
  EXPECT_TRUE(decode_lines(long_varint, 11, 10, 5).empty());
}

TEST(PythonLineTableTest, AreBoundedByTheLimitOfEntries) {
  std::string table;
  for (int i = 0; i < 20'000; ++i) table += "\xd8\x01\x01";
  EXPECT_EQ(decode_lines(table, 12, 1, 0).size(), kMaxInterpretedLines);
}

}  // namespace
}  // namespace profd::python
