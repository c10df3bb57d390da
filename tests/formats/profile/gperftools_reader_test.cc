#include "formats/profile/gperftools_reader.h"

#include <algorithm>
#include <vector>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "formats/profile/gperftools_writer.h"
#include "tests/formats/readers.h"
#include "tests/formats/slots.h"

namespace profd {
namespace {

using test::slots;
using test::SlotShape;
using testing::HasSubstr;

const std::vector<std::uint64_t> kHeader{0, 3, 0, 10000, 0};

std::string file_of(std::vector<std::uint64_t> records, const std::string& text = "",
                    SlotShape shape = {}) {
  std::vector<std::uint64_t> all = kHeader;
  all.insert(all.end(), records.begin(), records.end());
  all.insert(all.end(), {0, 1, 0});
  return slots(all, shape) + text;
}

std::vector<ProfileMapping> mappings_in(const std::string& text) {
  const Result<Profile> profile = decode_gperftools(file_of({}, text));
  EXPECT_TRUE(profile) << profile.error().message;
  return profile ? profile->mappings : std::vector<ProfileMapping>{};
}

Profile full_profile() {
  Profile profile;
  profile.period = 10101;
  profile.build_dir = "/out/of/this";
  profile.mappings = {{0x400000, 0x452000, 0x1000, "/usr/bin/a program"},
                      {0x7f0000000000, 0x7f0000100000, 0, "$build/objects/libx.so"},
                      {0x7ffd00000000, 0x7ffd00002000, 0, "[vdso]"}};
  profile.add_stack(std::vector<Frame>{{0xffffffff81000010, PcKind::kExact}, {0x401000}}, 3);
  profile.add_stack(std::vector<Frame>{{0x402000, PcKind::kExact}, {0x401000}, {0x403000}}, 9);
  profile.add_stack({}, 1);
  return profile;
}

TEST(GperftoolsReader, ReadsBackWhatTheWriterWrote) {
  const Result<Profile> profile = decode_gperftools(encode_gperftools(full_profile()));
  ASSERT_TRUE(profile) << profile.error().message;
  EXPECT_EQ(*profile, full_profile());
}

TEST(GperftoolsReader, DropsDecoys) {
  Profile profile;
  profile.period = 1;
  profile.add_stack(std::vector<Frame>{{0x1000}, {0x2000}}, 5);
  const Result<Profile> read = decode_gperftools(encode_gperftools(profile));
  ASSERT_TRUE(read);
  EXPECT_EQ(*read, profile);
}

TEST(GperftoolsReader, ReadsBothWidthsInBothByteOrders) {
  for (const unsigned bytes : {4U, 8U}) {
    for (const std::endian order : {std::endian::little, std::endian::big}) {
      const Result<Profile> profile = decode_gperftools(
          file_of({5, 3, 0xa0000, 0xc0000, 0xe0000, 2, 1, 0xfffffff0}, "", {bytes, order}));
      ASSERT_TRUE(profile) << bytes << profile.error().message;
      EXPECT_EQ(profile->period, 10000U);
      EXPECT_EQ(profile->samples(), 7U);
      ASSERT_EQ(profile->records().size(), 2U);
      EXPECT_THAT(profile->pcs(profile->records()[0]),
                  testing::ElementsAre(0xa0000, 0xc0000, 0xe0000));
      EXPECT_THAT(profile->pcs(profile->records()[1]), testing::ElementsAre(0xfffffff0));
    }
  }
}

TEST(GperftoolsReader, SkipsUnknownHeaderSlots) {
  const Result<Profile> profile =
      decode_gperftools(slots({0, 5, 0, 10000, 0, 77, 78, 4, 1, 0x1000, 0, 1, 0}));
  ASSERT_TRUE(profile) << profile.error().message;
  EXPECT_EQ(profile->samples(), 4U);
}

// The totals are what both pprofs print of these two files.
TEST(GperftoolsReader, ReadsFilesOfLibprofiler) {
  const std::string data = FORMATS_TEST_DATA;
  const Result<Profile> simple = decode_gperftools(test::read_file(data + "/simple.prof"));
  ASSERT_TRUE(simple) << simple.error().message;
  EXPECT_EQ(simple->samples(), 149U);
  EXPECT_EQ(simple->period, 10000U);
  EXPECT_EQ(simple->mappings[0], (ProfileMapping{0x5618ea317000, 0x5618ea318000, 0x1000,
                                                 "/srv/workload/pprof/samples/src/simple"}));
  const Result<Profile> work = decode_gperftools(test::read_file(data + "/work_pie.prof"));
  ASSERT_TRUE(work) << work.error().message;
  EXPECT_EQ(work->samples(), 305U);
}

TEST(GperftoolsReader, AgreesWithBothPprofsOnTheTotalsOfLibprofilersFiles) {
  for (const char* name : {"simple.prof", "work_pie.prof"}) {
    const std::string path = std::string(FORMATS_TEST_DATA) + "/" + name;
    const Result<Profile> profile = decode_gperftools(test::read_file(path));
    ASSERT_TRUE(profile);
    EXPECT_EQ(profile->samples(), test::go_report(path).total) << name;
    EXPECT_EQ(profile->samples(), test::perl_report(path).total) << name;
  }
}

TEST(GperftoolsReader, ReadsTheShapesOfMappingLines) {
  struct Case {
    const char* line;
    ProfileMapping mapping;
  };
  for (const Case& c : {
           Case{"7f01-7f02 r-xp 00001000 08:01 99   /lib/a b.so",
                {0x7f01, 0x7f02, 0x1000, "/lib/a b.so"}},
           {"7f01-7f02 r-xp 00001000 08:01 99 /lib/x.so (deleted)",
            {0x7f01, 0x7f02, 0x1000, "/lib/x.so"}},
           {"7f01-7f02 r-xp 00001000 08:01 99 /lib/x.so\r", {0x7f01, 0x7f02, 0x1000, "/lib/x.so"}},
           {"  7f01-7f02 r-xs 00000000 00:00 0 /lib/x.so", {0x7f01, 0x7f02, 0, "/lib/x.so"}},
           {"7f01-7f02: /lib/x.so", {0x7f01, 0x7f02, 0, "/lib/x.so"}},
           {"7f01-7f02 /lib/x.so", {0x7f01, 0x7f02, 0, "/lib/x.so"}},
           {"7f01-7f02 r-xp /lib/x.so (@2000) 0123abcd", {0x7f01, 0x7f02, 0x2000, "/lib/x.so"}},
           {"7f01-7f02 r-xp 0 00:00 0 [vdso]", {0x7f01, 0x7f02, 0, "[vdso]"}},
       }) {
    const std::vector<ProfileMapping> mappings = mappings_in(std::string(c.line) + "\n");
    ASSERT_EQ(mappings.size(), 1U) << c.line;
    EXPECT_EQ(mappings[0], c.mapping) << c.line;
  }
}

TEST(GperftoolsReader, SkipsLinesThatAreNoExecutableMapping) {
  for (const char* line : {"", "# a comment", "7f01-7f02 r--p 00001000 08:01 99 /lib/x.so",
                           "7f01-7f02 rw-p 0 00:00 0 ", "7f01-7f02 r-xp 00000000 00:00 0 ",
                           "7f02-7f01 r-xp 0 00:00 0 /lib/x.so", "7f01-7f02", "-",
                           "11112222333344445-5 r-xp 0 00:00 0 /lib/x.so", "key=value"}) {
    EXPECT_TRUE(mappings_in(std::string(line) + "\n").empty()) << line;
  }
}

TEST(GperftoolsReader, KeepsTheFirstBuildDirectoryAndPutsInLaterOnes) {
  const Result<Profile> profile =
      decode_gperftools(file_of({},
                                "build=/one\n"
                                "1000-2000 r-xp 0 00:00 0 $build/a.so\n"
                                "build=/two\n"
                                "3000-4000 r-xp 0 00:00 0 $build/b.so\n"));
  ASSERT_TRUE(profile);
  EXPECT_EQ(profile->build_dir, "/one");
  EXPECT_EQ(profile->mappings[0].path, "$build/a.so");
  EXPECT_EQ(profile->mappings[1].path, "/two/b.so");
}

// A later directory stands in a path as often as "$build" does.
TEST(GperftoolsReader, LimitsTheBytesThatBuildDirectoriesAddToThePaths) {
  constexpr std::size_t kDirectoryBytes = std::size_t{64} << 10;
  const auto line_with = [](int variables) {
    std::string line = "1000-2000 r-xp 0 00:00 0 /";
    for (int i = 0; i < variables; ++i) line += "$build";
    return line + "\n";
  };
  const std::string head = "build=/one\nbuild=/" + std::string(kDirectoryBytes - 1, 'd') + "\n";
  const auto mappings = mappings_in(head + line_with(100) + line_with(100));
  ASSERT_EQ(mappings.size(), 2U);
  EXPECT_EQ(mappings[1].path.size(), 1 + 100 * kDirectoryBytes);
  for (const std::string& lines :
       {line_with(300), line_with(100) + line_with(100) + line_with(100)}) {
    const Result<Profile> profile = decode_gperftools(file_of({}, head + lines));
    ASSERT_FALSE(profile);
    EXPECT_EQ(profile.error().code, ErrorCode::kMalformed);
    EXPECT_THAT(profile.error().message, HasSubstr("at offset"));
  }
}

TEST(GperftoolsReader, NamesTheOffsetOfAMalformedPart) {
  struct Case {
    const char* what;
    std::string file;
    const char* offset;
  };
  const std::uint64_t huge = ~std::uint64_t{0};
  for (const Case& c : {
           Case{"empty", "", "at offset 0"},
           {"text", "not a profile at all", "at offset 0"},
           {"only zeros", std::string(64, '\0'), "at offset 8"},
           {"header cut", slots({0, 3, 0}), "at offset 24"},
           {"two header slots", slots({0, 2, 0, 10000, 0, 0, 1, 0}), "at offset 8"},
           {"absurd header size", slots({0, 0x70000, 0, 1, 0}), "at offset"},
           {"header longer than the file", slots({0, 9, 0, 10000, 0, 0, 1, 0}), "at offset 32"},
           {"another version", slots({0, 3, 1, 10000, 0, 0, 1, 0}), "at offset 16"},
           {"period 0", slots({0, 3, 0, 0, 0, 0, 1, 0}), "at offset 24"},
           {"no trailer", slots({0, 3, 0, 10000, 0}), "at offset 40"},
           {"no trailer after a record", slots({0, 3, 0, 10000, 0, 1, 1, 5}), "at offset 64"},
           {"depth 0", file_of({1, 0}), "at offset 40"},
           {"depth above the end", file_of({1, 65537}), "at offset 40"},
           {"depth of 64 bits", file_of({1, huge}), "at offset 40"},
           {"depth above the file's end", file_of({1, 9, 1}), "at offset 40"},
           {"count 0 of two frames", file_of({0, 2, 1, 1}), "at offset 40"},
           {"counts above 64 bits", file_of({huge, 1, 1, 1, 1, 1}), "at offset 64"},
           {"a second profile behind the first", file_of({}) + file_of({}), "at offset 64"},
           {"a last line without end", file_of({}, "1000-2000 r-xp 0 00:00 0 /a"), "at offset 64"},
       }) {
    const Result<Profile> profile = decode_gperftools(c.file);
    ASSERT_FALSE(profile) << c.what;
    EXPECT_EQ(profile.error().code, ErrorCode::kMalformed) << c.what;
    EXPECT_THAT(profile.error().message, HasSubstr(c.offset)) << c.what;
    const Result<std::uint64_t> samples = count_gperftools_samples(c.file);
    ASSERT_FALSE(samples) << c.what;
    EXPECT_EQ(samples.error().message, profile.error().message) << c.what;
  }
}

bool is_prefix(const std::vector<ProfileMapping>& some, const std::vector<ProfileMapping>& all) {
  return some.size() <= all.size() && std::equal(some.begin(), some.end(), all.begin());
}

TEST(GperftoolsReader, RefusesAProfileCutAtAnyByteOrReadsFewerMappings) {
  const std::string file = encode_gperftools(full_profile());
  const Result<std::size_t> text = text_offset(file);
  ASSERT_TRUE(text);
  for (std::size_t size = 0; size < file.size(); ++size) {
    const Result<Profile> cut = decode_gperftools(std::string_view(file).substr(0, size));
    const auto samples = count_gperftools_samples(std::string_view(file).substr(0, size));
    EXPECT_EQ(samples.has_value(), cut.has_value()) << size;
    if (size < *text) {
      EXPECT_FALSE(cut) << size;
    }
    if (!cut) {
      EXPECT_EQ(cut.error().code, ErrorCode::kMalformed) << size;
      EXPECT_THAT(cut.error().message, HasSubstr("it is cut: ")) << size;
      EXPECT_THAT(cut.error().hint, HasSubstr("copy the file again")) << size;
    } else {
      EXPECT_TRUE(is_prefix(cut->mappings, full_profile().mappings)) << size;
      Profile rest = full_profile();
      rest.mappings = cut->mappings;
      rest.build_dir = cut->build_dir;
      EXPECT_EQ(*cut, rest) << size;
    }
  }
}

TEST(GperftoolsReader, SurvivesAnyByteChanged) {
  const std::string file = encode_gperftools(full_profile());
  for (std::size_t at = 0; at < file.size(); ++at) {
    for (const char value : {'\0', '\x01', '\x7f', '\xff'}) {
      std::string changed = file;
      changed[at] = value;
      const Result<Profile> profile = decode_gperftools(changed);
      const Result<std::uint64_t> samples = count_gperftools_samples(changed);
      ASSERT_EQ(samples.has_value(), profile.has_value()) << at;
      if (profile) {
        EXPECT_EQ(*samples, profile->samples()) << at;
      } else {
        EXPECT_EQ(samples.error().message, profile.error().message) << at;
        EXPECT_THAT(profile.error().message, HasSubstr("at offset ")) << at;
      }
    }
  }
}

}  // namespace
}  // namespace profd
