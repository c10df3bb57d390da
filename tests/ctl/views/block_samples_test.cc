// Samples of off-cpu, runnable and wall: how they are read, and written again. Expected values are
// those that each test puts into its profile, and what Go's pprof prints of a file.

#include <cstdint>
#include <string>
#include <utility>
#include <vector>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "ctl/sources/pprof_samples.h"
#include "ctl/sources/samples_wire.h"
#include "ctl/views/samples_gperftools.h"
#include "ctl/views/samples_pprof.h"
#include "ctl/views/selected_samples.h"
#include "formats/profile/pprof_reader.h"
#include "formats/profile/pprof_writer.h"
#include "tests/ctl/ran.h"
#include "tests/ctl/views/block_profile.h"
#include "tests/formats/readers.h"

namespace profd {
namespace {

using test::BlockProfile;
using test::kMs;
using test::kSecond;
using testing::HasSubstr;

Samples samples_of_blocks(const BlockProfile& from) {
  auto protobuf = unpack_pprof(encode_pprof_gzip(from.profile()));
  EXPECT_TRUE(protobuf);
  auto samples = samples_of_pprof(std::move(*protobuf));
  EXPECT_TRUE(samples);
  return std::move(*samples);
}

BlockProfile a_block_profile() {
  BlockProfile profile;
  profile.add({"k:futex_wait", "lock", "main"}, {.state = "S", .wait = "futex"}, 3, 1500 * kMs,
              1200 * kMs);
  profile.add({"k:io_schedule", "read_all", "main"},
              {.state = "D", .wait = "disk", .is_ongoing = true, .pid = 8, .thread = "io-#"}, 1,
              250 * kMs + 999);
  return profile;
}

void expect_both_blocks(const Samples& samples) {
  EXPECT_EQ(samples.event, "off-cpu");
  EXPECT_EQ(samples.time_kind, TimeKind::kOffCpu);
  EXPECT_TRUE(samples.has_cpu_time);
  EXPECT_TRUE(samples.has_counts);
  ASSERT_EQ(samples.rows().size(), 2U);
  for (const Samples::Row& row : samples.rows()) {
    const SampleLabels& labels = samples.labels()[row.labels];
    const bool is_first = labels.pid == 7;
    const SampleValue first{.samples = 3, .cpu_ns = 1500 * kMs, .longest_ns = 1200 * kMs};
    EXPECT_EQ(row.value, is_first ? first : (SampleValue{.samples = 1, .cpu_ns = 250 * kMs + 999}));
    EXPECT_EQ(samples.text(labels.state), is_first ? "S" : "D");
    EXPECT_EQ(samples.text(labels.wait), is_first ? "futex" : "disk");
    EXPECT_EQ(samples.text(labels.ongoing), is_first ? "" : "yes");
    EXPECT_EQ(samples.text(labels.thread), is_first ? "" : "io-#");
  }
}

// Finds a label, a type or a longest block that one of the ways forgets.
TEST(BlockSamples, TimesAndLabelsStayOnEachWay) {
  const Samples samples = samples_of_blocks(a_block_profile());
  expect_both_blocks(samples);
  const auto from_child = decode_samples(encode_samples(samples));
  ASSERT_TRUE(from_child);
  expect_both_blocks(*from_child);
  expect_both_blocks(selected_samples(Selection(samples, {})));
  auto again = samples_of_pprof(*unpack_pprof(encode_pprof_gzip(pprof_of_samples(samples))));
  ASSERT_TRUE(again);
  expect_both_blocks(*again);
  Samples sum = samples_of_blocks(BlockProfile());
  add_samples(samples, sum);
  expect_both_blocks(sum);
}

TEST(BlockSamples, AProfileOfThemHasTheTypesOfTheDaemon) {
  for (const std::string type : {"off_cpu", "runnable", "wall"}) {
    BlockProfile from(type);
    from.add({"f"}, {}, 2, 30);
    const PprofProfile made = pprof_of_samples(samples_of_blocks(from));
    const PprofProfile& original = from.profile();
    EXPECT_THAT(std::vector(made.sample_types().begin(), made.sample_types().end()),
                testing::ElementsAreArray(original.sample_types()));
    EXPECT_EQ(made.default_sample_type, type);
    EXPECT_EQ(made.period_type, original.period_type);
    EXPECT_EQ(made.period, 1);
  }
}

// As those of other profilers that count both.
TEST(BlockSamples, CpuTimeGoesBeforeWallClockTime) {
  for (const bool is_cpu_first : {true, false}) {
    const PprofValueType cpu{"cpu", "nanoseconds"};
    const PprofValueType wall{"wall", "nanoseconds"};
    PprofProfile profile({is_cpu_first ? cpu : wall, is_cpu_first ? wall : cpu});
    const std::uint32_t location = profile.add_location({}, {});
    const std::vector<std::int64_t> values{is_cpu_first ? 5 : 70, is_cpu_first ? 70 : 5};
    profile.add_sample(
        {.labels = profile.add_labels({}), .stack = profile.add_stack({&location, 1})}, values);
    const auto samples = samples_of_pprof(*unpack_pprof(encode_pprof_gzip(profile)));
    ASSERT_TRUE(samples);
    EXPECT_EQ(samples->time_kind, TimeKind::kCpu);
    EXPECT_EQ(samples->sum().cpu_ns, 5);
  }
}

// gperftools counts microseconds; what is below one is carried to the next row.
TEST(BlockSamples, GperftoolsCountsMicroseconds) {
  BlockProfile from;
  for (int i = 0; i < 10; ++i) from.add({"f" + std::to_string(i)}, {}, 5, 1900);
  const Profile profile = gperftools_of_samples(samples_of_blocks(from)).profile;
  EXPECT_EQ(profile.period, 1U);
  std::uint64_t sum = 0;
  for (const Profile::Record& record : profile.records()) sum += record.count;
  EXPECT_EQ(sum, 19U);
}

TEST(BlockSamples, PprofShowsTheSecondsOfAConvertedFile) {
  const test::ScratchDirectory scratch;
  const auto file = scratch.write("a.pb.gz", encode_pprof_gzip(a_block_profile().profile()));
  for (const std::string name : {"b.pb.gz", "b.prof"}) {
    const auto made = scratch.path() / name;
    const Ran ran = run_with_socket(scratch.path() / "no-socket", {"convert", file, "-o", made});
    ASSERT_EQ(ran.code, 0) << ran.err;
    const std::string top = test::output_of(std::string("HOME=/nonexistent ") + GO_PPROF_BINARY +
                                            " -top -unit=ms -symbolize=local " + made.string());
    EXPECT_THAT(top, HasSubstr("1750ms total")) << name;
    EXPECT_THAT(top, testing::ContainsRegex("1500ms +[0-9.]+% +[0-9.]+% +1500ms +[0-9.]+% +"
                                            "futex_wait"))
        << name;
  }
}

}  // namespace
}  // namespace profd
