// The profile with names of a session, as Go's pprof reads it without symbolizing.

#include <sys/stat.h>

#include <cstdint>
#include <filesystem>
#include <string>

#include <gmock/gmock.h>

#include "daemon/storage/result_store.h"
#include "formats/base/utf8_text.h"
#include "formats/profile/pprof_reader.h"
#include "tests/daemon/profiles/session_writer_fixture.h"

namespace profd {
namespace {

using test::ChainProgram;
using test::kProgram;
using test::SessionWriterTest;
using test::SyntheticSample;
using testing::AllOf;
using testing::HasSubstr;
using testing::Not;

class NamedProfileTest : public SessionWriterTest {
 protected:
  std::string pprof(const std::string& options) {
    return test::output_of(std::string("HOME=/nonexistent PPROF_BINARY_PATH=/nonexistent ") +
                           GO_PPROF_BINARY + " -symbolize=none -sample_index=samples " + options +
                           " " + path(kNamedProfile).string());
  }
};

TEST_F(NamedProfileTest, NamesEachFrameOnceTheFileIsGone) {
  ProcessSnapshot& process = add_process("chain");
  {
    const ChainProgram program = add_program(process, "libchain.so");
    add_samples(process, chain(program), 3);
  }
  write();
  std::filesystem::remove(scratch_.path() / "libchain.so");
  const std::string traces = pprof("-traces");
  EXPECT_THAT(traces, HasSubstr("3   leaf\n"
                                "             middle\n"
                                "             outer\n"
                                "             _start\n"));
}

TEST_F(NamedProfileTest, HasTheSamplesOfEachProcessUnderItsLabels) {
  ProcessSnapshot& first = add_process("chain");
  test::image_of(first).identified = true;
  test::image_of(first).uid = 0;
  test::image_of(first).cgroup = "/system.slice/nginx.service";
  const ChainProgram program = add_program(first, "libchain.so");
  add_samples(first, chain(program), 3);
  ProcessSnapshot& second = add_process("other", {.tgid = 77, .exec_id = 1, .start_ns = 5});
  add_samples(second, SyntheticSample(kProgram).leaf(0x1234), 2);
  write();
  const std::string tags = pprof("-tags");
  EXPECT_THAT(tags, HasSubstr("pid: Total 5.0"));
  EXPECT_THAT(tags, HasSubstr("3.0 (60.00%): 4321"));
  EXPECT_THAT(tags, HasSubstr("2.0 (40.00%): 77"));
  EXPECT_THAT(tags, HasSubstr("3.0 (60.00%): nginx.service"));
  EXPECT_THAT(tags, HasSubstr("2.0 (40.00%): -"));
  EXPECT_THAT(tags, HasSubstr("3.0 (60.00%): root"));
  EXPECT_THAT(pprof("-top -tagfocus=pid=77"), HasSubstr("2 40.00%"));
  EXPECT_THAT(pprof("-top -tagroot=unit"), HasSubstr("nginx.service"));
}

// Whoever runs it besides.
TEST_F(NamedProfileTest, AProgramHasItsNamesWhereItsUserMayReadIt) {
  ProcessSnapshot& first = add_process("owner");
  const ChainProgram program = add_program(first, "chain");
  const std::string path = scratch_.path() / "chain";
  ASSERT_EQ(::chmod(path.c_str(), 0711), 0);
  ProcessMapping mapping = program.mapping();
  mapping.file = test::open_mapped(path);
  mapping.file_key = mapping.file->key;
  test::image_of(first).identified = true;
  test::image_of(first).mappings = {{1, mapping}};
  add_samples(first, chain(program), 3);
  ProcessSnapshot& second = add_process("other", {.tgid = 77, .exec_id = 1, .start_ns = 5});
  test::image_of(second).identified = true;
  test::image_of(second).uid = 1000;
  test::image_of(second).mappings = {{1, mapping}};
  add_samples(second, chain(program), 2);
  write();
  EXPECT_THAT(pprof("-traces -tagfocus=pid=4321"), HasSubstr("leaf\n"));
  const std::string of_other = pprof("-traces -tagfocus=pid=77");
  EXPECT_THAT(of_other, AllOf(HasSubstr("[chain]"), Not(HasSubstr("leaf"))));
}

TEST_F(NamedProfileTest, FramesWithoutNameAreNamedAfterTheirMapping) {
  ProcessSnapshot& process = add_process("chain");
  add_samples(process, SyntheticSample(kProgram).leaf(0x1234), 2);
  ProcessMapping anonymous{.start = 0x10000, .end = 0x20000};
  test::image_of(process).mappings.emplace(5, anonymous);
  add_samples(process, SyntheticSample(kProgram).leaf(0x10010, 5), 4);
  write();
  const std::string top = pprof("-top");
  EXPECT_THAT(top, HasSubstr("[anon]"));
  EXPECT_THAT(top, HasSubstr("[unknown]"));
}

TEST_F(NamedProfileTest, ASampleOverTheShareOfItsUserSaysSo) {
  ProcessSnapshot& process = add_process("chain");
  add_samples(process, SyntheticSample(kProgram).end(PROFD_END_OVER_SHARE), 4);
  write();
  EXPECT_THAT(pprof("-traces"), HasSubstr("4   [over share]\n"));
}

TEST_F(NamedProfileTest, TheValuesAreSamplesTimesTheTruePeriod) {
  ProcessSnapshot& process = add_process("chain");
  const ChainProgram program = add_program(process, "libchain.so");
  add_samples(process, chain(program), 3);
  write();
  const auto profile = decode_pprof(test::read_file(path(kNamedProfile)));
  ASSERT_TRUE(profile.has_value());
  EXPECT_EQ(profile->period, 10'101'000);  // as in the header of the gperftools files
  EXPECT_EQ(profile->default_sample_type, "cpu");
  ASSERT_EQ(profile->samples().size(), 1U);
  EXPECT_EQ(profile->values(0)[0], 3);
  EXPECT_EQ(profile->values(0)[1], 30'303'000);
}

TEST_F(NamedProfileTest, ACallerWithoutRightsSeesOneKernelFrame) {
  snapshot_.hide_kernel = true;
  ProcessSnapshot& process = add_process("chain");
  const ChainProgram program = add_program(process, "libchain.so");
  add_samples(process, chain(program).kernel(0xffffffff81000001).kernel(0xffffffff81000123));
  write();
  EXPECT_THAT(pprof("-traces"), HasSubstr("1   [kernel]\n             leaf\n"));
  EXPECT_THAT(pprof("-raw"), Not(HasSubstr("ffffffff81")));
}

// "\x1b[31m" makes a terminal write in red, and so does U+009B with "31m".
TEST_F(NamedProfileTest, NamesThatProgramsChooseHaveNoControlCharacters) {
  ProcessSnapshot& process = add_process("a\nb\x1b[31m\u009b31m\u00e9");
  const ChainProgram program = add_program(process, "lib\x1b[31mchain.so");
  add_samples(process, chain(program), 3);
  write();
  const auto profile = decode_pprof(test::read_file(path(kNamedProfile)));
  ASSERT_TRUE(profile.has_value());
  bool has_comm = false;
  for (std::uint32_t i = 0; i < profile->text_count(); ++i) {
    EXPECT_FALSE(has_controls(profile->text(i))) << profile->text(i);
    has_comm |= profile->text(i) == "a?b?[31m?31m\u00e9";
  }
  EXPECT_TRUE(has_comm);
}

TEST_F(NamedProfileTest, EqualSessionsHaveEqualBytes) {
  std::string bytes;
  for (int i = 0; i < 2; ++i) {
    snapshot_ = test::handmade_session();
    ProcessSnapshot& process = add_process("chain");
    const ChainProgram program = i == 0
                                     ? add_program(process, "libchain.so")
                                     : ChainProgram(scratch_.path() / "libchain.so", test::kBase);
    if (i == 1) {
      test::image_of(process).executable = program.file()->key;
      test::image_of(process).mappings.emplace(1, program.mapping());
    }
    SyntheticSample one = chain(program);
    SyntheticSample two = SyntheticSample(kProgram).leaf(program.address("outer"), 1);
    add_samples(process, i == 0 ? one : two, 2);
    add_samples(process, i == 0 ? two : one, 2);
    write();
    const std::string now = test::read_file(path(kNamedProfile));
    if (i == 1) {
      EXPECT_EQ(now, bytes);
    }
    bytes = now;
    std::filesystem::remove_all(path(""));
  }
}

}  // namespace
}  // namespace profd
