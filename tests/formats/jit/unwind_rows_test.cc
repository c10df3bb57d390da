#include "formats/jit/unwind_rows.h"

#include <cstring>
#include <string>
#include <vector>

#include <gtest/gtest.h>

#include "tests/formats/jit/files.h"
#include "tests/formats/jit/jitdump_writer.h"
#include "tests/formats/readers.h"

namespace profd {
namespace {

using test::data_file;

struct LoadRows {
  JitDumpEvent load;
  std::vector<JitUnwindRows> functions;
};

// The rows of all LOADs of a file.
std::vector<LoadRows> read_all(const std::string& file) {
  const test::ReadJitDump read = test::read_whole(file);
  std::vector<LoadRows> loads;
  for (const JitDumpEvent& event : read.events) {
    if (event.kind != JitDumpEventKind::kLoad || event.unwinding_info.bytes == 0) continue;
    auto rows = read_jit_unwind_rows(test::part_of(file, event.unwinding_info), read.state,
                                     event.address, event.code_bytes);
    EXPECT_TRUE(rows) << event.name;
    if (rows) loads.push_back({event, std::move(*rows)});
  }
  return loads;
}

// V8's FDE lacks the padding after the last instruction.
TEST(JitUnwindRows, RowsOfNodeLieInTheCodeOfTheirLoad) {
  const std::string file = data_file("node_unwinding.dump");
  const std::vector<LoadRows> loads = read_all(file);
  EXPECT_EQ(loads.size(), 17U);
  for (const LoadRows& function : loads) {
    ASSERT_EQ(function.functions.size(), 1U);
    EXPECT_EQ(function.functions[0].start, function.load.address);
    const std::uint64_t end = function.load.address + function.load.code_bytes;
    EXPECT_LE(function.functions[0].end, end);
    EXPECT_GE(function.functions[0].end + 8, end);
  }
}

// Decoded by hand from the first FDE's bytes: 4f 0e 10 86 02 43 0d 06.
TEST(JitUnwindRows, RowsOfNodeFollowTheBytesOfTheirFde) {
  const std::string file = data_file("node_unwinding.dump");
  const std::vector<LoadRows> loads = read_all(file);
  ASSERT_FALSE(loads.empty());
  const JitUnwindRows& function = loads[0].functions.at(0);
  ASSERT_GE(function.rows.size(), 3U);
  EXPECT_EQ(function.rows[0].offset, function.start);
  EXPECT_EQ(function.rows[0].rule.kind, PROFD_RULE_REGISTER);
  EXPECT_EQ(function.rows[0].rule.cfa_register, PROFD_DWARF_RSP);
  EXPECT_EQ(function.rows[0].rule.cfa_offset, 8);
  EXPECT_EQ(function.rows[1].offset, function.start + 15);
  EXPECT_EQ(function.rows[1].rule.cfa_offset, 16);
  EXPECT_EQ(function.rows[1].rule.rbp_saved, PROFD_SAVED_AT_CFA);
  EXPECT_EQ(function.rows[1].rule.rbp_offset, -16);
  EXPECT_EQ(function.rows[2].offset, function.start + 18);
  EXPECT_EQ(function.rows[2].rule.cfa_register, PROFD_DWARF_RBP);
  EXPECT_EQ(function.rows[2].rule.cfa_offset, 16);
}

TEST(JitUnwindRows, RowsOfPythonCoverTheCodeOfTheirLoad) {
  const std::string file = data_file("cpython.dump");
  const std::vector<LoadRows> loads = read_all(file);
  EXPECT_EQ(loads.size(), 66U);
  for (const LoadRows& function : loads) {
    ASSERT_EQ(function.functions.size(), 1U);
    EXPECT_EQ(function.functions[0].start, function.load.address);
    EXPECT_EQ(function.functions[0].end, function.load.address + function.load.code_bytes);
  }
}

template <class T>
void put(std::string& bytes, T value) {
  char raw[sizeof(T)];
  std::memcpy(raw, &value, sizeof(T));
  bytes.append(raw, sizeof(T));
}

// An eh_frame of two functions as ORC writes it, with absolute pointers.
std::string absolute_eh_frame(std::uint64_t first, std::uint64_t second) {
  std::string section;
  put(section, std::uint32_t{20});
  put(section, std::uint32_t{0});
  section.append("\x01zR\0\x01\x78\x10\x01\0\x0c\x07\x08\x90\x01", 14);
  section.append(2, '\0');
  for (const std::uint64_t start : {first, second}) {
    const std::size_t entry = section.size();
    put(section, std::uint32_t{28});
    put(section, static_cast<std::uint32_t>(entry + 4));
    put(section, start);
    put(section, std::uint64_t{32});
    section.append("\0\x41\x0e\x10\x86\x02\0\0", 8);
  }
  put(section, std::uint32_t{0});
  return section;
}

std::string record_of(const std::string& data, std::uint64_t hdr_bytes) {
  JitDumpWriter writer;
  writer.unwinding_info(1, data, hdr_bytes, 0);
  return writer.take();
}

TEST(JitUnwindRows, AWholeObjectHasTheRowsOfAllItsFunctions) {
  const std::string header("\x01\x1b\x03\x3b\0\0\0\0\0\0\0\0", 12);
  const auto rows = read_jit_unwind_rows(
      record_of(header + absolute_eh_frame(0x7f0000001000, 0x7f0000002000), header.size()), {}, 0,
      0);
  ASSERT_TRUE(rows) << rows.error().message;
  ASSERT_EQ(rows->size(), 2U);
  EXPECT_EQ((*rows)[0].start, 0x7f0000001000U);
  EXPECT_EQ((*rows)[0].end, 0x7f0000001020U);
  ASSERT_EQ((*rows)[1].rows.size(), 2U);
  EXPECT_EQ((*rows)[1].rows[1].offset, 0x7f0000002001U);
  EXPECT_EQ((*rows)[1].rows[1].rule.cfa_offset, 16);
}

TEST(JitUnwindRows, UnwindDataOfOtherCodeIsRefused) {
  const std::string eh_frame = absolute_eh_frame(0x7f0000001000, 0x7f0000002000);
  EXPECT_FALSE(read_jit_unwind_rows(record_of(eh_frame, 0), {}, 0x10000, 64));
  const auto cut = read_jit_unwind_rows(record_of(eh_frame, 0), {}, 0x7f0000001000, 8);
  ASSERT_TRUE(cut);
  ASSERT_EQ(cut->size(), 1U);
  EXPECT_EQ((*cut)[0].end, 0x7f0000001008U);
}

TEST(JitUnwindRows, MalformedDataGivesNoRowsOutsideOfTheCode) {
  constexpr std::uint64_t kAddress = 0x7f0000001000;
  constexpr std::uint64_t kBytes = 64;
  const std::string whole = record_of(absolute_eh_frame(kAddress, kAddress + 32), 0);
  for (std::size_t at = 0; at < whole.size(); ++at) {
    for (const int value : {0x00, 0x01, 0x7f, 0x80, 0xff}) {
      std::string malformed = whole;
      malformed[at] = static_cast<char>(value);
      const auto rows = read_jit_unwind_rows(malformed, {}, kAddress, kBytes);
      if (!rows) continue;
      for (const JitUnwindRows& function : *rows) {
        EXPECT_GE(function.start, kAddress);
        EXPECT_LE(function.end, kAddress + kBytes);
        for (const UnwindRow& row : function.rows) {
          EXPECT_GE(row.offset, function.start);
          EXPECT_LT(row.offset, function.end);
        }
      }
    }
  }
}

}  // namespace
}  // namespace profd
