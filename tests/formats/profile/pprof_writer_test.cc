#include "formats/profile/pprof_writer.h"

#include <algorithm>
#include <cstdint>
#include <random>
#include <utility>
#include <vector>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "formats/base/gzip.h"
#include "formats/profile/pprof_reader.h"
#include "tests/formats/profile/pprof_oracles.h"

namespace profd {
namespace {

using test::protoc_decoded;
using testing::ElementsAre;
using testing::HasSubstr;
using testing::Not;

// Mappings sorted by content, locations by mapping and address; functions and texts where the first
// entry that has them needs them.
constexpr std::string_view kSmallProfile = R"(sample_type {
  type: 18
  unit: 13
}
sample_type {
  type: 14
  unit: 15
}
sample {
  location_id: 1
  location_id: 2
  value: 3
  value: 30000000
  label {
    key: 12
    str: 11
  }
  label {
    key: 16
    num: 42
  }
}
mapping {
  id: 1
  filename: 7
  has_functions: true
  has_filenames: true
  has_line_numbers: true
  has_inline_frames: true
}
mapping {
  id: 2
  memory_start: 4096
  memory_limit: 12288
  file_offset: 4096
  filename: 8
  build_id: 9
  has_functions: true
  has_filenames: true
  has_line_numbers: true
  has_inline_frames: true
}
mapping {
  id: 3
  memory_start: 8192
  memory_limit: 36864
  filename: 10
  has_functions: true
  has_filenames: true
  has_line_numbers: true
  has_inline_frames: true
}
location {
  id: 1
  mapping_id: 2
  address: 4112
  line {
    function_id: 1
    line: 12
  }
  line {
    function_id: 2
    line: 5
  }
  is_folded: true
}
location {
  id: 2
  mapping_id: 3
  address: 8448
  line {
    function_id: 3
  }
}
function {
  id: 1
  name: 1
  system_name: 2
  filename: 3
  start_line: 10
}
function {
  id: 2
  name: 4
  system_name: 4
  filename: 5
  start_line: 3
}
function {
  id: 3
  name: 6
}
string_table: ""
string_table: "work"
string_table: "_Z4workv"
string_table: "work.cc"
string_table: "main"
string_table: "main.cc"
string_table: "[libfoo.so]"
string_table: "[all processes of host]"
string_table: "/usr/bin/app"
string_table: "abcd"
string_table: "/usr/lib/libfoo.so"
string_table: "app"
string_table: "comm"
string_table: "count"
string_table: "cpu"
string_table: "nanoseconds"
string_table: "pid"
string_table: "profd 0.1.0 on host"
string_table: "samples"
time_nanos: 1700000000000000000
duration_nanos: 60000000000
period_type {
  type: 14
  unit: 15
}
period: 10000000
comment: 17
default_sample_type: 14
)";

TEST(PprofWriter, WritesWhatProtocReads) {
  EXPECT_EQ(protoc_decoded(encode_pprof(test::small_pprof())), kSmallProfile);
}

TEST(PprofWriter, WritesTablesBeforeSamplesAndOwnDataLast) {
  PprofProfile profile = test::small_pprof();
  profile.own_data = "own";
  const std::string bytes = encode_pprof(profile);
  EXPECT_THAT(test::top_level_fields(bytes),
              ElementsAre(1, 6, 14, 11, 12, 9, 10, 13, 3, 5, 4, 2, 1000));
  EXPECT_TRUE(bytes.ends_with("own"));
}

// Stacks over few frames, so that they share many; built in the order of `random`.
PprofProfile shuffled_profile(unsigned seed) {
  std::mt19937_64 random(seed);  // NOLINT: the same every time
  PprofProfile profile({{"samples", "count"}}, random());
  profile.add_mapping({.file = profile.add_text("title")});
  std::vector<unsigned> numbers(200);
  for (unsigned i = 0; i < numbers.size(); ++i) numbers[i] = i;
  std::ranges::shuffle(numbers, random);
  for (const unsigned number : numbers) profile.add_text("unused" + std::to_string(number));
  for (const unsigned number : numbers) {
    const auto mapping =
        profile.add_mapping({.file = profile.add_text("f" + std::to_string(number % 3))});
    std::vector<std::uint32_t> stack;
    for (unsigned at = number; at > 0; at /= 3) {
      const auto name = profile.add_text(std::to_string(at % 3) + "::name");
      const auto function = profile.add_function({.name = name});
      std::vector<PprofLine> lines(1 + at % 2, PprofLine{function, at % 5});
      stack.push_back(profile.add_location({.address = at % 7, .mapping = mapping}, lines));
    }
    std::vector<PprofLabel> labels = {{.key = profile.add_text("comm"),
                                       .text = profile.add_text("c" + std::to_string(number % 4))},
                                      {.key = profile.add_text("pid"), .number = number % 6}};
    if (random() % 2 == 0) std::swap(labels[0], labels[1]);
    const PprofSample sample{profile.add_labels(labels), profile.add_stack(stack)};
    const std::int64_t value = number % 5 - 1;  // some are 0 in the sum
    if (random() % 2 == 0) {
      profile.add_sample(sample, std::vector<std::int64_t>{value + 1});
      profile.add_sample(sample, std::vector<std::int64_t>{-1});
    } else {
      profile.add_sample(sample, std::vector{value});
    }
  }
  return profile;
}

TEST(PprofWriter, WritesEqualProfilesAsEqualBytes) {
  const std::string first = encode_pprof(shuffled_profile(0));
  for (unsigned seed = 1; seed < 30; ++seed) {
    EXPECT_EQ(encode_pprof(shuffled_profile(seed)), first) << seed;
  }
}

// 200 locations, of which those from address 101 on have two frames and the others one.
TEST(PprofWriter, PutsThe127MostFrequentLocationsFirst) {
  PprofProfile profile({{"samples", "count"}}, 1);
  const auto labels = profile.add_labels({});
  for (std::uint64_t address = 1; address <= 200; ++address) {
    const auto location = profile.add_location({.address = address}, {});
    const std::vector<std::uint32_t> stack(address > 100 ? 2 : 1, location);
    profile.add_sample({labels, profile.add_stack(stack)}, std::vector<std::int64_t>{1});
  }
  const std::string bytes = encode_pprof(profile);
  const PprofResult<PprofTables> tables = read_pprof_tables(bytes);
  ASSERT_TRUE(tables);
  std::vector<std::uint64_t> addresses;
  for (const auto& location : tables->locations) addresses.push_back(location.address);
  std::vector<std::uint64_t> expected;
  for (const auto& [first, last] : {std::pair(1, 27), {101, 200}, {28, 100}}) {
    for (int address = first; address <= last; ++address)
      expected.push_back(static_cast<std::uint64_t>(address));
  }
  EXPECT_EQ(addresses, expected);
}

TEST(PprofWriter, LeavesOutUnusedEntries) {
  const std::string text = protoc_decoded(encode_pprof(shuffled_profile(0)));
  EXPECT_THAT(text, HasSubstr("0::name"));
  EXPECT_THAT(text, Not(HasSubstr("unused")));
}

TEST(PprofWriter, LeavesOutSamplesOfZeroAndWhatOnlyTheyUse) {
  PprofProfile profile = test::small_pprof();
  const std::string before = encode_pprof(profile);
  const auto function = profile.add_function({.name = profile.add_text("never")});
  const auto location = profile.add_location({}, std::vector<PprofLine>{{function, 0}});
  const PprofSample sample{profile.add_labels({{.key = profile.add_text("k"), .number = 5}}),
                           profile.add_stack(std::vector{location})};
  profile.add_sample(sample, std::vector<std::int64_t>{4, 0});
  EXPECT_NE(encode_pprof(profile), before);
  profile.add_sample(sample, std::vector<std::int64_t>{-4, 0});
  EXPECT_EQ(encode_pprof(profile), before);
}

TEST(PprofWriter, KeepsTheFirstMappingFirst) {
  PprofProfile profile({{"samples", "count"}}, 1);
  profile.add_mapping({.file = profile.add_text("z, the title")});
  const auto mapping = profile.add_mapping({.file = profile.add_text("a")});
  const auto location = profile.add_location({.mapping = mapping}, {});
  profile.add_sample({profile.add_labels({}), profile.add_stack(std::vector{location})},
                     std::vector<std::int64_t>{1});
  EXPECT_THAT(protoc_decoded(encode_pprof(profile)),
              HasSubstr("mapping {\n  id: 1\n  filename: 2\n"));
}

TEST(PprofWriter, WritesATypeWithoutName) {
  PprofProfile profile({{"", ""}, {"cpu", "nanoseconds"}}, 1);
  EXPECT_THAT(protoc_decoded(encode_pprof(profile)),
              testing::StartsWith("sample_type {\n}\nsample_type {\n  type: 1\n  unit: 2\n}\n"));
}

// protoc warns of a string field that is not UTF-8.
TEST(PprofWriter, WritesOnlyValidUtf8) {
  PprofProfile profile({{"sam\xc0ples", "count"}}, 1);
  profile.default_sample_type = std::string(2000, '\xff');
  profile.comments = {"\xed\xa0\x80", "\xed\xa0\x81", "fine"};
  profile.add_mapping({.file = profile.add_text("/tmp/\xe2\x82")});
  const std::string text = protoc_decoded(encode_pprof(profile));
  EXPECT_THAT(text, Not(HasSubstr("UTF-8")));
  EXPECT_THAT(text, HasSubstr("/tmp/\\357\\277\\275"));
  EXPECT_THAT(text, HasSubstr("\\357\\277\\275...\""));
}

TEST(PprofWriter, PacksAsGzip) {
  const PprofProfile profile = test::small_pprof();
  const Result<std::string> unpacked = unpack_gzip(encode_pprof_gzip(profile), 1 << 20);
  ASSERT_TRUE(unpacked);
  EXPECT_EQ(*unpacked, encode_pprof(profile));
}

}  // namespace
}  // namespace profd
