#include "formats/xray/map.h"

#include <sys/mman.h>
#include <unistd.h>

#include <string>
#include <vector>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "formats/base/unique_fd.h"
#include "tests/formats/elf/hostile_elf.h"

namespace profd::xray {
namespace {

using ::testing::HasSubstr;

// The address of the first section that HostileElf adds behind the code.
constexpr std::uint64_t kMap = 0x2000;

std::string le(std::uint64_t value, std::size_t bytes = 8) {
  std::string text;
  for (std::size_t i = 0; i < bytes; ++i) text.push_back(static_cast<char>(value >> 8 * i));
  return text;
}

struct SledOf {
  std::uint64_t function = 0;
  Sled kind = Sled::kEnter;
};

std::string sleds_of(const std::vector<SledOf>& sleds, std::uint8_t version) {
  std::string bytes;
  for (const SledOf& sled : sleds) {
    const std::uint64_t at = kMap + bytes.size();
    const bool is_relative = version == 2;
    bytes += le(sled.function + 4 - (is_relative ? at : 0));
    bytes += le(sled.function - (is_relative ? at + 8 : 0));
    bytes += le(static_cast<std::uint64_t>(sled.kind), 1) + le(1, 1) + le(version, 1);
    bytes.resize(bytes.size() + 13, '\xaa');
  }
  return bytes;
}

const std::vector<SledOf> kSleds{
    {0x1100, Sled::kEnter},    {0x1100, Sled::kExit},       {0x1200, Sled::kEnterWithArguments},
    {0x1200, Sled::kTailExit}, {0x1200, Sled::kTypedEvent}, {0x1300, Sled::kEnter}};

UniqueFd file_of(const std::string& bytes) {
  UniqueFd fd(::memfd_create("xray_map_test", MFD_CLOEXEC));
  EXPECT_EQ(::write(fd.get(), bytes.data(), bytes.size()), static_cast<ssize_t>(bytes.size()));
  return fd;
}

UniqueFd file_with(const std::vector<test::HostileSection>& sections) {
  test::HostileElf elf;
  for (const test::HostileSection& section : sections) elf.add(section);
  return file_of(elf.bytes());
}

void expect_three_functions(const Result<FunctionMap>& map, const std::string& what) {
  ASSERT_TRUE(map) << what << ": " << map.error().message;
  ASSERT_EQ(map->functions.size(), 3U) << what;
  EXPECT_EQ(map->functions[0].address, 0x1100U) << what;
  EXPECT_EQ(map->functions[1].address, 0x1200U) << what;
  EXPECT_EQ(map->functions[2].address, 0x1300U) << what;
  EXPECT_TRUE(map->functions[0].has(Sled::kExit)) << what;
  EXPECT_FALSE(map->functions[0].has(Sled::kTailExit)) << what;
  EXPECT_TRUE(map->functions[1].has(Sled::kTypedEvent)) << what;
  EXPECT_EQ(map->find(0), nullptr);
  EXPECT_EQ(map->find(3), &map->functions[2]);
  EXPECT_EQ(map->find(4), nullptr);
}

TEST(XrayMap, SledsOfEveryVersionAreRead) {
  for (const std::uint8_t version : {std::uint8_t{0}, std::uint8_t{1}, std::uint8_t{2}}) {
    const UniqueFd file = file_with({{"xray_instr_map", sleds_of(kSleds, version)}});
    expect_three_functions(read_function_map(file.get()), std::to_string(version));
  }
}

TEST(XrayMap, BothFormsOfTheIndexAreRead) {
  const std::string sleds = sleds_of(kSleds, 2);
  const std::uint64_t index = kMap + sleds.size();
  const auto relative = [&](std::uint64_t entry, std::uint64_t first, std::uint64_t count) {
    return le(kMap + first * 32 - (index + entry * 16)) + le(count);
  };
  const auto absolute = [](std::uint64_t first, std::uint64_t count) {
    return le(kMap + first * 32) + le(kMap + (first + count) * 32);
  };
  for (const std::string& entries : {relative(0, 0, 2) + relative(1, 2, 3) + relative(2, 5, 1),
                                     absolute(0, 2) + absolute(2, 3) + absolute(5, 1)}) {
    const UniqueFd file = file_with({{"xray_instr_map", sleds}, {"xray_fn_idx", entries}});
    expect_three_functions(read_function_map(file.get()), "index");
  }
}

// The order of the index decides the ids, not the order of the sleds.
TEST(XrayMap, TheIndexDecidesTheIds) {
  const std::string entries = le(kMap + 5 * 32) + le(kMap + 6 * 32) + le(kMap) + le(kMap + 2 * 32);
  const UniqueFd file =
      file_with({{"xray_instr_map", sleds_of(kSleds, 2)}, {"xray_fn_idx", entries}});
  const auto map = read_function_map(file.get());
  ASSERT_TRUE(map);
  ASSERT_EQ(map->functions.size(), 2U);
  EXPECT_EQ(map->functions[0].address, 0x1300U);
  EXPECT_EQ(map->functions[1].address, 0x1100U);
}

TEST(XrayMap, AnInvalidIndexIsIgnored) {
  for (const std::string& entries :
       {le(5) + le(6), le(~std::uint64_t{0}) + le(1), le(kMap) + le(kMap + 7 * 32),
        le(kMap) + le(kMap), std::string(15, 'x'),
        le(kMap) + le(kMap + 6 * 32) + le(kMap) + le(kMap + 32)}) {
    const UniqueFd file =
        file_with({{"xray_instr_map", sleds_of(kSleds, 2)}, {"xray_fn_idx", entries}});
    expect_three_functions(read_function_map(file.get()), "bad index");
  }
}

TEST(XrayMap, RelocationsOfAPositionIndependentFileAreApplied) {
  std::string sleds = sleds_of(kSleds, 0);
  std::string relocations;
  for (std::size_t i = 0; i < kSleds.size(); ++i) {
    sleds.replace(i * 32, 16, 16, '\0');
    for (const std::uint64_t field : {0, 8}) {
      relocations += le(kMap + i * 32 + field) + le(R_X86_64_RELATIVE) + le(kSleds[i].function);
    }
  }
  relocations += le(0) + le(R_X86_64_RELATIVE) + le(1);  // of other places
  relocations += le(kMap + sleds.size() - 4) + le(R_X86_64_RELATIVE) + le(1);
  const UniqueFd file = file_with({{"xray_instr_map", sleds}, {".rela.dyn", relocations}});
  expect_three_functions(read_function_map(file.get()), "relocated");
}

TEST(XrayMap, AnInvalidMapIsAnErrorWithTheReason) {
  std::string unknown_version = sleds_of(kSleds, 2);
  unknown_version[18] = 3;
  std::string unknown_kind = sleds_of(kSleds, 2);
  unknown_kind[16] = 6;
  struct Case {
    std::vector<test::HostileSection> sections;
    ErrorCode code;
    const char* message;
  };
  for (const Case& refused :
       {Case{{}, ErrorCode::kUnsupported, "not instrumented"},
        Case{{{"xray_instr_map", unknown_version}}, ErrorCode::kUnsupported, "unknown kind"},
        Case{{{"xray_instr_map", unknown_kind}}, ErrorCode::kUnsupported, "unknown kind"}}) {
    const UniqueFd file = file_with(refused.sections);
    const auto map = read_function_map(file.get());
    ASSERT_FALSE(map) << refused.message;
    EXPECT_EQ(map.error().code, refused.code);
    EXPECT_THAT(map.error().message, HasSubstr(refused.message));
  }
}

// Each byte of the file is changed. The result is an error, or a map with at most as many functions
// as sleds.
TEST(XrayMap, AnyChangedByteIsTolerated) {
  const std::string sleds = sleds_of(kSleds, 2);
  test::HostileElf elf(std::string(64, '\x90'));
  elf.add({"xray_instr_map", sleds});
  elf.add({"xray_fn_idx", le(0x1050) + le(0x1090)});
  elf.add({".rela.dyn", le(0x1050) + le(R_X86_64_RELATIVE) + le(5)});
  const std::string whole = elf.bytes();
  for (std::size_t at = 0; at < whole.size(); ++at) {
    for (const int mask : {0x01, 0x80, 0xff}) {
      std::string bent = whole;
      bent[at] = static_cast<char>(bent[at] ^ mask);
      const UniqueFd file = file_of(bent);
      const auto map = read_function_map(file.get());
      if (!map) continue;
      EXPECT_LE(map->functions.size(), kSleds.size()) << at;
    }
  }
}

}  // namespace
}  // namespace profd::xray
