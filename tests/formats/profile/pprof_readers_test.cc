// What Go's pprof says of a profile.proto of ours, and what we make of one of its own.

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "formats/profile/pprof_reader.h"
#include "formats/profile/pprof_writer.h"
#include "tests/formats/profile/pprof_oracles.h"

namespace profd {
namespace {

using test::go_pprof;
using test::Row;
using testing::AllOf;
using testing::ContainsRegex;
using testing::HasSubstr;
using testing::Not;

class PprofReadersTest : public testing::Test {
 protected:
  std::string written(const PprofProfile& profile, const std::string& name = "ours.pb.gz") {
    return scratch_.write(name, encode_pprof_gzip(profile)).string();
  }
  // The file as Go's pprof writes it.
  std::string rewritten(const std::string& files) {
    const auto path = scratch_.path() / "theirs.pb.gz";
    const std::string said = go_pprof("-proto -output " + path.string() + " " + files);
    return path.string();
  }
  static PprofProfile decoded(const std::string& path) {
    PprofResult<PprofProfile> profile = decode_pprof(test::read_file(path));
    EXPECT_TRUE(profile) << path << ": " << (profile ? "" : name_of(profile.error()));
    return profile ? std::move(*profile) : PprofProfile({}, 1);
  }

  test::ScratchDirectory scratch_;
};

TEST_F(PprofReadersTest, ShowEachFrameByItsName) {
  const test::Report report = test::go_report(written(test::small_pprof()));
  EXPECT_EQ(report.total, 3U);
  EXPECT_EQ(report.rows.at("work (inline)"), (Row{3, 3}));
  EXPECT_EQ(report.rows.at("main"), (Row{0, 3}));
  EXPECT_EQ(report.rows.at("[libfoo.so]"), (Row{0, 3}));
  EXPECT_EQ(report.rows.size(), 3U);
}

TEST_F(PprofReadersTest, ShowTitleTimeAndDefaultType) {
  const std::string top = go_pprof("-top " + written(test::small_pprof()));
  EXPECT_THAT(top, AllOf(HasSubstr("File: [all processes of host]\n"), HasSubstr("Type: cpu\n"),
                         HasSubstr("Time: Nov 14, 2023 at 10:13pm (UTC)\n"),
                         HasSubstr("Duration: 60s, Total samples = 30ms")));
  EXPECT_THAT(go_pprof("-comments " + written(test::small_pprof())),
              HasSubstr("profd 0.1.0 on host"));
}

TEST_F(PprofReadersTest, ShowTracesWithLabelsFromTheLeafOn) {
  EXPECT_THAT(go_pprof("-traces -sample_index=samples " + written(test::small_pprof())),
              AllOf(ContainsRegex("comm: *app\n"), ContainsRegex("pid: *42\n"),
                    ContainsRegex(" 3   work.*\n *main\n *\\[libfoo.so\\]\n")));
}

TEST_F(PprofReadersTest, FindSamplesByTheirLabels) {
  PprofProfile profile = test::small_pprof();
  const PprofSample other{
      profile.add_labels({{.key = profile.add_text("pid"), .number = 7},
                          {.key = profile.add_text("comm"), .text = profile.add_text("sh")}}),
      profile.samples()[0].stack};
  profile.add_sample(other, std::vector<std::int64_t>{10, 100000000});
  const std::string path = written(profile);
  EXPECT_THAT(go_pprof("-tags -sample_index=samples " + path),
              AllOf(HasSubstr("pid: Total 13.0\n"), ContainsRegex("10.0 .*: 7\n"),
                    ContainsRegex("3.0 .*: 42\n"), ContainsRegex("3.0 .*: app\n")));
  EXPECT_THAT(go_pprof("-top -sample_index=samples -tagfocus=pid=42 " + path),
              HasSubstr("Showing nodes accounting for 3, 23.08% of 13 total"));
  EXPECT_THAT(go_pprof("-top -sample_index=samples -tagroot=comm " + path),
              AllOf(ContainsRegex(" 3 23.08%  app\n"), ContainsRegex(" 10 76.92%  sh\n")));
}

TEST_F(PprofReadersTest, KeepTheLabelZero) {
  PprofProfile profile = test::small_pprof();
  const auto uid = profile.add_text("uid");
  for (const std::int64_t number : {0, 1}) {
    const PprofSample sample{profile.add_labels({{.key = uid, .number = number}}),
                             profile.samples()[0].stack};
    profile.add_sample(sample, std::vector<std::int64_t>{number + 5, 0});
  }
  const std::string path = written(profile);
  EXPECT_THAT(go_pprof("-tags -sample_index=samples " + path),
              AllOf(HasSubstr("uid: Total 11.0\n"), ContainsRegex("5.0 .*: 0\n"),
                    ContainsRegex("6.0 .*: 1\n")));
  EXPECT_THAT(go_pprof("-top -sample_index=samples -tagfocus=uid=0uid " + path),
              HasSubstr("Showing nodes accounting for 5,"));
}

TEST_F(PprofReadersTest, WriteAProfileThatBecomesTheSameAgain) {
  PprofProfile profile = test::small_pprof();
  const std::string ours = encode_pprof(profile);
  EXPECT_EQ(encode_pprof(decoded(rewritten(written(profile)))), ours);
}

TEST_F(PprofReadersTest, AgreeOnProfilesOfGoPrograms) {
  for (const std::string name : {"go_cpu.pb.gz", "go_heap.pb.gz"}) {
    const std::string theirs = std::string(FORMATS_TEST_DATA) + "/" + name;
    const std::string ours = written(decoded(theirs));
    EXPECT_EQ(test::go_raw(ours), test::go_raw(theirs)) << name;
    EXPECT_EQ(encode_pprof(decoded(rewritten(theirs))), encode_pprof(decoded(theirs))) << name;
  }
}

// With gaps in its ids, columns, a numeric label, and a file that is mapped twice.
TEST_F(PprofReadersTest, AgreeOnAProfileOfAnotherWriter) {
  const std::string bytes = test::protoc_encoded(R"(
    sample_type { type: 1 unit: 2 } sample_type { type: 3 unit: 4 }
    sample { location_id: [9, 5, 9] value: [2, 7]
             label { key: 6 str: 7 } label { key: 5 num: 3 num_unit: 2 } }
    sample { location_id: [5] value: [1, -1] label { key: 6 str: 7 } }
    sample { location_id: [5] value: [0, 0] }
    mapping { id: 3 memory_start: 4096 memory_limit: 12288 filename: 8 build_id: 9 }
    mapping { id: 1 memory_start: 65536 memory_limit: 73728 filename: 10 build_id: 9 }
    location { id: 9 mapping_id: 3 address: 4112 is_folded: true
               line { function_id: 2 line: 12 column: 3 } line { function_id: 4 line: 5 } }
    location { id: 5 mapping_id: 1 address: 65700 line { function_id: 4 } }
    function { id: 4 name: 11 system_name: 12 filename: 13 start_line: 10 }
    function { id: 2 name: 12 }
    string_table: ["", "samples", "count", "cpu", "nanoseconds", "pid", "comm", "sh", "/lib/a.so"]
    string_table: ["abcd", "/lib/b.so", "f", "_Z1fv", "f.cc", "a comment", "b"]
    time_nanos: 5 duration_nanos: 6 period_type { type: 3 unit: 4 } period: 100
    comment: [14, 15] default_sample_type: 3)");
  const std::string theirs = scratch_.write("theirs.pb", bytes).string();
  const PprofProfile profile = decoded(theirs);
  EXPECT_EQ(test::go_raw(written(profile)), test::go_raw(theirs));
  EXPECT_EQ(profile.mappings().size(), 2U) << "unlike in pprof, a file has each of its names";
}

TEST_F(PprofReadersTest, AgreeOnAProfileThatPprofMadeOfGperftools) {
  const std::string theirs = rewritten(std::string(FORMATS_TEST_DATA) + "/simple.prof");
  const test::RawProfile raw = test::go_raw(theirs, false);
  const test::RawProfile ours = test::go_raw(written(decoded(theirs)), false);
  EXPECT_EQ(ours.header, raw.header);
  EXPECT_EQ(ours.samples.size(), raw.samples.size());
  EXPECT_THAT(testing::PrintToString(ours.samples), Not(HasSubstr("[unknown]")));
}

}  // namespace
}  // namespace profd
