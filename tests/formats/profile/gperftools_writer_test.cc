#include "formats/profile/gperftools_writer.h"

#include <vector>

#include <gtest/gtest.h>

#include "tests/formats/slots.h"

namespace profd {
namespace {

using test::slots;

// The document's own example of a record: 5 ticks at 0xa0000, called from 0xc0000, called from
// 0xe0000.
Profile example() {
  Profile profile;
  profile.period = 10000;
  profile.add_record(std::vector<std::uint64_t>{0xa0000, 0xc0000, 0xe0000}, 5);
  profile.add_record(std::vector<std::uint64_t>{0xa0000}, 1);
  return profile;
}

std::string text_of(const Profile& profile) {
  Profile empty = profile;
  empty.mappings.clear();
  empty.build_dir.clear();
  return encode_gperftools(profile).substr(encode_gperftools(empty).size());
}

TEST(GperftoolsWriter, WritesTheDocumentsExample) {
  EXPECT_EQ(encode_gperftools(example()), slots({0, 3, 0, 10000, 0,                // header
                                                 5, 3, 0xa0000, 0xc0000, 0xe0000,  // records
                                                 1, 1, 0xa0000,                    //
                                                 0, 1, 0}));                       // trailer
}

TEST(GperftoolsWriter, WritesAnEmptyProfileWithoutDecoys) {
  Profile profile;
  profile.period = 1000;
  EXPECT_EQ(encode_gperftools(profile), slots({0, 3, 0, 1000, 0, 0, 1, 0}));
}

TEST(GperftoolsWriter, WritesAPeriodOfZeroAsOne) {
  Profile profile;
  EXPECT_EQ(encode_gperftools(profile), slots({0, 3, 0, 1, 0, 0, 1, 0}));
}

TEST(GperftoolsWriter, WritesMappingsInOrderAsBothReadersWantThem) {
  Profile profile = example();
  profile.mappings = {{0x400000, 0x401000, 0, "/usr/bin/a b"},
                      {0x7f0000001000, 0x7f0000002000, 0x1000, "/usr/lib/libc.so.6"},
                      {0x7ffd00000000, 0x7ffd00002000, 0, "[vdso]"}};
  EXPECT_EQ(text_of(profile),
            "00400000-00401000 r-xp 00000000 00:00 0 /usr/bin/a b\n"
            "7f0000001000-7f0000002000 r-xp 00001000 00:00 0 /usr/lib/libc.so.6\n"
            "7ffd00000000-7ffd00002000 r-xp 00000000 00:00 0 [vdso]\n");
}

TEST(GperftoolsWriter, AppendsLinesThatProfilesShareAsItWritesTheirMappings) {
  const ProfileMapping first{0x400000, 0x401000, 0, "$build/objects/a.so"};
  const ProfileMapping second{0x7f0000001000, 0x7f0000002000, 0x1000, "/usr/lib/libc.so.6"};
  Profile profile = example();
  profile.build_dir = ".";
  const std::string file = encode_gperftools(profile, mapping_line(first) + mapping_line(second));
  profile.mappings = {first, second};
  EXPECT_EQ(file, encode_gperftools(profile));
  EXPECT_EQ(mapping_line({0x1000, 0x2000, 0, "/a\nb"}), "") << "a path that no line can hold";
}

TEST(GperftoolsWriter, NamesTheBuildDirectoryFirst) {
  Profile profile = example();
  profile.build_dir = "/out";
  profile.mappings = {{0x1000, 0x2000, 0, "$build/objects/x.so"}};
  EXPECT_EQ(text_of(profile),
            "build=/out\n00001000-00002000 r-xp 00000000 00:00 0 $build/objects/x.so\n");
}

TEST(GperftoolsWriter, LeavesOutMappingsThatDoNotFitALine) {
  Profile profile = example();
  profile.mappings = {{0x1000, 0x2000, 0, ""},
                      {0x3000, 0x4000, 0, "/a\n00000000-ffffffff r-xp 00000000 00:00 0 /etc/x.so"},
                      {0x5000, 0x6000, 0, "/" + std::string(70000, 'a')},
                      {0x7000, 0x8000, 0, "/b.so"}};
  EXPECT_EQ(text_of(profile), "00007000-00008000 r-xp 00000000 00:00 0 /b.so\n");
  profile.build_dir = "/out\nx";
  profile.mappings.clear();
  EXPECT_EQ(text_of(profile), "");
}

// The condition of Go's pprof: it removes a caller that `count` of `samples` records have.
bool go_removes(std::uint64_t count, std::uint64_t samples) {
  const std::uint64_t margin = samples / 32;
  return count >= samples - margin;
}

TEST(GperftoolsWriter, AddsTheFewestDecoysThatKeepGoFromRemovingACaller) {
  for (std::uint64_t records = 1; records < 200; ++records) {
    for (const std::uint64_t different : {0U, 1U, 3U, 7U}) {
      if (different >= records) continue;
      Profile profile;
      for (std::uint64_t i = 0; i < records; ++i) {
        const std::uint64_t caller = i < different ? 0x9000 + i : 0x2000;
        profile.add_record(std::vector<std::uint64_t>{0x1000, caller, i}, 1);
      }
      const std::uint64_t record_bytes = 5 * 8 * records;
      const std::uint64_t frame_bytes = (5 + 3) * 8;
      const std::uint64_t decoys =
          (encode_gperftools(profile).size() - frame_bytes - record_bytes) / 24;
      const std::uint64_t same = records - different;
      EXPECT_FALSE(go_removes(same, records + decoys)) << records << " " << different;
      if (decoys > 0) {
        EXPECT_TRUE(go_removes(same, records + decoys - 1)) << records << " " << different;
      }
    }
  }
}

TEST(GperftoolsWriter, AddsDecoysWithACountOfZeroAtASampledLeaf) {
  Profile profile;
  profile.period = 1;
  profile.add_record(std::vector<std::uint64_t>{0x1000, 0x2000}, 7);
  EXPECT_EQ(encode_gperftools(profile),
            slots({0, 3, 0, 1, 0, 7, 2, 0x1000, 0x2000, 0, 1, 0x1000, 0, 1, 0}));
}

TEST(GperftoolsWriter, NeverWritesATrailerAsADecoy) {
  Profile profile;
  profile.period = 1;
  profile.add_record(std::vector<std::uint64_t>{0, 0x2000}, 7);
  EXPECT_EQ(encode_gperftools(profile), slots({0, 3, 0, 1, 0, 7, 2, 0, 0x2000, 0, 1, 1, 0, 1, 0}));
}

TEST(WithBuildDir, PutsAnotherDirectoryInPlace) {
  Profile profile = example();
  profile.build_dir = "/before";
  profile.mappings = {{0x1000, 0x2000, 0, "$build/objects/x.so"}};
  const std::string before = encode_gperftools(profile);
  profile.build_dir = "/a/longer/directory than before";
  EXPECT_EQ(with_build_dir(before, profile.build_dir), encode_gperftools(profile));
}

TEST(WithBuildDir, LeavesOtherFilesAsTheyAre) {
  const std::string without = encode_gperftools(example());
  EXPECT_EQ(with_build_dir(without, "/x"), without);
  EXPECT_EQ(with_build_dir("build=/a\n", "/x"), "build=/a\n") << "no profile";
  Profile profile = example();
  profile.build_dir = "/before";
  const std::string with = encode_gperftools(profile);
  EXPECT_EQ(with_build_dir(with, "/x\ny"), with) << "a directory that no line can hold";
}

TEST(ReadersCanParsePath, TakesWhatBothReadersReadWhole) {
  struct Case {
    std::string path;
    bool library;
    bool main;
  };
  for (const Case& c : {Case{"/usr/lib/libc.so.6", true, true},
                        {"/usr/lib/libstdc++.so.6.0.30", true, true},
                        {"/x/addon.node", true, true},
                        {"/usr/lib/libfoo.so", true, true},
                        {"/usr/bin/bash", false, true},
                        {"/usr/bin/python3.11", false, true},
                        {"/usr/lib/foo.so.", false, true},
                        {"/usr/lib/foo.so.1..2", false, true},
                        {"/usr/lib/libfoo.so.bak", false, true},
                        {"/\xc3\xa4/libfoo.so", true, true},
                        {"/a b/libfoo.so", false, false},
                        {"/a\tb.so", false, false},
                        {"/a\nb.so", false, false},
                        {"/a.so (deleted)", false, false},
                        {"/$build/a.so", false, false},
                        {"/a\\040b.so", false, false},
                        {"[vdso]", false, false},
                        {"", false, false},
                        {"relative.so", false, false},
                        {"/" + std::string(508, 'a') + ".so", true, true},
                        {"/" + std::string(509, 'a') + ".so", false, false},
                        {"/" + std::string(70000, 'a') + ".so", false, false}}) {
    EXPECT_EQ(readers_can_parse_path(c.path, false), c.library) << c.path.substr(0, 80);
    EXPECT_EQ(readers_can_parse_path(c.path, true), c.main) << c.path.substr(0, 80);
  }
}

}  // namespace
}  // namespace profd
