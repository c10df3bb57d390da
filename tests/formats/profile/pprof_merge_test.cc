#include "formats/profile/pprof_merge.h"

#include <random>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "formats/profile/pprof_order.h"
#include "formats/profile/pprof_reader.h"
#include "formats/profile/pprof_writer.h"
#include "tests/formats/profile/pprof_oracles.h"

namespace profd {
namespace {

using testing::HasSubstr;
using testing::Not;

// Processes of two users; profiles of different `seed` share most frames and some stacks.
PprofProfile window_of(unsigned seed) {
  std::mt19937_64 random(seed);  // NOLINT: the same every time
  PprofProfile profile({{"samples", "count"}, {"cpu", "nanoseconds"}}, 1);
  profile.default_sample_type = "cpu";
  profile.period_type = {"cpu", "nanoseconds"};
  profile.period = 10000000 + seed;
  profile.time_ns = 1700000000000000000 - std::int64_t{seed} * 60000000000;
  profile.duration_ns = 60000000000;
  profile.comments = {"profd 0.1.0 on host", seed % 2 == 0 ? "even" : "odd"};
  profile.add_mapping({.file = profile.add_text("[all processes of host]")});
  for (int i = 0; i < 60; ++i) {
    std::vector<std::uint32_t> stack;
    for (auto depth = 1 + random() % 4; depth > 0; --depth) {
      const auto number = static_cast<std::uint32_t>(random() % 5);
      const auto mapping =
          profile.add_mapping({.start = 0x1000,
                               .limit = 0x5000,
                               .file = profile.add_text("/bin/f" + std::to_string(number % 2))});
      const auto name = profile.add_text("function" + std::to_string(number));
      const std::vector<PprofLine> lines(1 + number % 2,
                                         PprofLine{profile.add_function({.name = name}), number});
      const std::uint64_t address = 0x1000 + number * 16 + random() % 2;
      stack.push_back(profile.add_location({.address = address, .mapping = mapping}, lines));
    }
    const auto pid = static_cast<std::int64_t>(1 + random() % 4);
    const PprofSample sample{
        profile.add_labels({{.key = profile.add_text("pid"), .number = pid},
                            {.key = profile.add_text("user"),
                             .text = profile.add_text(pid % 2 == 0 ? "even-user" : "odd-user")}}),
        profile.add_stack(stack)};
    profile.add_sample(sample, std::vector<std::int64_t>{1, 10000000});
  }
  return profile;
}

// The text of a label, or "" where there is none.
std::string_view label_of(const PprofTables& tables, std::span<const PprofLabel> labels,
                          std::string_view key) {
  for (const PprofLabel& label : labels) {
    if (tables.texts[label.key] == key) return tables.texts[label.text];
  }
  return {};
}

class PprofMergeTest : public testing::Test {
 protected:
  std::string written(const PprofProfile& profile, const std::string& name) {
    return scratch_.write(name, encode_pprof_gzip(profile)).string();
  }
  static void add(PprofMerge& merge, const PprofProfile& profile, const PprofSelect& select = {}) {
    const Result<void> added = merge.add(order_pprof(profile).tables, select);
    EXPECT_TRUE(added) << added.error().message;
  }
  static PprofTables tables_of(const std::string& protobuf) {
    PprofResult<PprofTables> tables = read_pprof_tables(protobuf);
    EXPECT_TRUE(tables) << name_of(tables.error());
    return tables ? std::move(*tables) : PprofTables{};
  }

  test::ScratchDirectory scratch_;
};

TEST_F(PprofMergeTest, AddsUpAsPprofDoes) {
  PprofMerge merge;
  std::string files;
  for (unsigned seed = 0; seed < 4; ++seed) {
    add(merge, window_of(seed));
    files += written(window_of(seed), "window" + std::to_string(seed)) + " ";
  }
  const std::string ours = written(merge.profile(), "merged");
  EXPECT_EQ(test::go_raw(ours), test::go_raw(files));
  EXPECT_EQ(merge.profile().comments.size(), 3U);

  const std::string theirs = scratch_.path() / "theirs.pb.gz";
  const std::string said = test::go_pprof("-proto -output " + theirs + " " + files);
  const auto decoded = decode_pprof(test::read_file(theirs));
  ASSERT_TRUE(decoded) << name_of(decoded.error());
  EXPECT_EQ(encode_pprof(*decoded), encode_pprof(merge.profile()));
}

TEST_F(PprofMergeTest, AddsUpProfilesOfGoProgramsAsPprofDoes) {
  for (const std::string name : {"go_cpu.pb.gz", "go_heap.pb.gz"}) {
    const std::string path = std::string(FORMATS_TEST_DATA) + "/" + name;
    const auto protobuf = unpack_pprof(test::read_file(path));
    ASSERT_TRUE(protobuf);
    PprofMerge merge;
    EXPECT_TRUE(merge.add(tables_of(*protobuf)));
    EXPECT_TRUE(merge.add(tables_of(*protobuf)));
    EXPECT_EQ(test::go_raw(written(merge.profile(), "merged")), test::go_raw(path + " " + path));
  }
}

TEST_F(PprofMergeTest, GivesEqualBytesInEachOrder) {
  PprofMerge forwards;
  PprofMerge backwards;
  for (unsigned seed = 0; seed < 4; ++seed) {
    add(forwards, window_of(seed));
    add(backwards, window_of(3 - seed));
  }
  EXPECT_EQ(encode_pprof(forwards.profile()), encode_pprof(backwards.profile()));
}

PprofProfile window_of_blocks(std::int64_t ns, std::int64_t longest_ns) {
  PprofProfile window({{"blocks", "count"}, {"off_cpu", "nanoseconds"}}, 1);
  const auto location = window.add_location({.address = 16}, {});
  const auto labels =
      window.add_labels({{.key = window.add_text("state"), .text = window.add_text("S")}});
  window.add_sample({labels, window.add_stack(std::vector{location})},
                    std::vector<std::int64_t>{2, ns}, longest_ns);
  return window;
}

// Finds: a label that is a part of a sample's key, so that rows multiply, a sum, the last one
// instead of the longest, and a file without the label that resets it.
TEST_F(PprofMergeTest, KeepsTheLongestBlockOfEqualSamples) {
  const std::vector<std::int64_t> longest{20, 3'000'000'000, 0, 500};
  PprofMerge merge;
  std::string files;
  for (const std::int64_t ns : longest) {
    const PprofProfile window = window_of_blocks(4'000'000'000, ns);
    const auto read = decode_pprof(encode_pprof_gzip(window));
    ASSERT_TRUE(read);
    add(merge, *read);
    files += written(window, "window" + std::to_string(ns)) + " ";
  }
  ASSERT_EQ(merge.profile().samples().size(), 1U);
  EXPECT_EQ(merge.profile().longest(0), 3'000'000'000);
  EXPECT_EQ(merge.profile().values(0)[1], 16'000'000'000);
  EXPECT_EQ(merge.profile().labels(merge.profile().samples()[0].labels).size(), 1U);
  const std::string ours = written(merge.profile(), "merged");
  const std::string raw = test::go_pprof("-raw " + ours);
  EXPECT_THAT(raw, HasSubstr("longest:[3000000000 nanoseconds]"));
  EXPECT_EQ(raw.find("longest:"), raw.rfind("longest:"));
  // pprof takes it for a label by which samples differ; its times are ours.
  EXPECT_THAT(test::go_pprof("-top -unit=s " + ours), HasSubstr("16s total"));
  EXPECT_THAT(test::go_pprof("-top -unit=s " + files), HasSubstr("16s total"));

  // What it writes of them has the label behind the others. Here they are one again.
  const std::string theirs = scratch_.path() / "theirs.pb.gz";
  const std::string said = test::go_pprof("-proto -output " + theirs + " " + files);
  const auto decoded = decode_pprof(test::read_file(theirs));
  ASSERT_TRUE(decoded) << name_of(decoded.error());
  ASSERT_EQ(decoded->samples().size(), 1U);
  EXPECT_EQ(decoded->longest(0), 3'000'000'000);
}

// The same library, loaded at two addresses; its size differs within a page.
TEST_F(PprofMergeTest, KnowsAFileThatWasLoadedElsewhere) {
  const auto profile_at = [](unsigned long start, unsigned long size) {
    return test::protoc_encoded(
        R"(string_table: ["", "samples", "count", "f", "/lib/a.so"] sample_type { type: 1 unit: 2 }
           function { id: 1 name: 3 } sample { location_id: 1 value: 5 }
           mapping { id: 1 filename: 4 has_functions: true memory_start: )" +
        std::to_string(start) + " memory_limit: " + std::to_string(start + size) +
        "} location { id: 1 mapping_id: 1 line { function_id: 1 } address: " +
        std::to_string(start + 16) + "}");
  };
  const std::string first = profile_at(0x10000, 0x1800);
  const std::string second = profile_at(0x7f0000000000, 0x1f00);
  PprofMerge merge;
  EXPECT_TRUE(merge.add(tables_of(first)));
  EXPECT_TRUE(merge.add(tables_of(second)));
  ASSERT_EQ(merge.profile().samples().size(), 1U);
  EXPECT_EQ(merge.profile().values(0)[0], 10);
  EXPECT_EQ(test::go_raw(written(merge.profile(), "merged")),
            test::go_raw(scratch_.write("first", first).string() + " " +
                         scratch_.write("second", second).string()));
}

TEST_F(PprofMergeTest, RefusesOtherTypesAndChangesNothing) {
  PprofMerge merge;
  add(merge, window_of(0));
  const std::string before = encode_pprof(merge.profile());
  PprofProfile other({{"samples", "count"}}, 1);
  other.comments = {"other"};
  other.period_type = {"cpu", "nanoseconds"};
  EXPECT_FALSE(merge.add(order_pprof(other).tables));
  PprofProfile other_period = window_of(1);
  other_period.period_type = {"cycles", "count"};
  EXPECT_FALSE(merge.add(order_pprof(other_period).tables));
  EXPECT_EQ(encode_pprof(merge.profile()), before);
}

TEST_F(PprofMergeTest, DropsAddresses) {
  PprofMerge merge({.drop_addresses = true});
  add(merge, window_of(0));
  const test::RawProfile ours = test::go_raw(written(merge.profile(), "merged"));
  EXPECT_THAT(testing::PrintToString(ours.samples), HasSubstr(" 0x0 function"));
  EXPECT_LT(merge.profile().locations().size(), window_of(0).locations().size());
  std::int64_t samples = 0;
  for (std::size_t i = 0; i < merge.profile().samples().size(); ++i) {
    samples += merge.profile().values(i)[0];
  }
  EXPECT_EQ(samples, 60);
}

TEST_F(PprofMergeTest, SelectsSamplesAndHoldsNoTextOfOthers) {
  PprofProfile window = window_of(0);
  const auto secret = window.add_function(
      {.name = window.add_text("secret_function"), .file = window.add_text("/home/odd/secret.cc")});
  const auto mapping = window.add_mapping(
      {.file = window.add_text("/home/odd/secret"), .build_id = window.add_text("5ec2e7")});
  const auto location =
      window.add_location({.mapping = mapping}, std::vector<PprofLine>{{secret, 1}});
  const PprofSample sample{
      window.add_labels({{.key = window.add_text("user"), .text = window.add_text("odd-user")},
                         {.key = window.add_text("secret-key"), .number = 1}}),
      window.add_stack(std::vector{location})};
  window.add_sample(sample, std::vector<std::int64_t>{1, 1});
  EXPECT_THAT(encode_pprof(window), HasSubstr("secret"));

  PprofMerge merge;
  add(merge, window, [](const PprofTables& tables, std::vector<PprofLabel>& labels) {
    return label_of(tables, labels, "user") == "even-user";
  });
  EXPECT_FALSE(merge.profile().samples().empty());
  for (const std::string_view foreign : {"secret", "odd", "5ec2e7"}) {
    EXPECT_THAT(encode_pprof(merge.profile()), Not(HasSubstr(foreign)));
    for (std::uint32_t i = 0; i < merge.profile().text_count(); ++i) {
      EXPECT_THAT(std::string(merge.profile().text(i)), Not(HasSubstr(foreign)));
    }
  }
}

// Whoever gets the samples of one user sees the names of that user's mappings alone.
TEST_F(PprofMergeTest, AFileHasEachOfItsNames) {
  PprofMerge merge;
  for (const std::string user : {"alice", "bob"}) {
    PprofProfile window({{"samples", "count"}}, 1);
    window.add_mapping({.file = window.add_text("[all processes of host]")});
    const auto mapping = window.add_mapping({.limit = 0x1000,
                                             .file = window.add_text("/home/" + user + "/lib.so"),
                                             .build_id = window.add_text("b1d")});
    const auto function = window.add_function({.name = window.add_text("work")});
    const auto location = window.add_location({.address = 16, .mapping = mapping},
                                              std::vector<PprofLine>{{function, 1}});
    const auto labels =
        window.add_labels({{.key = window.add_text("user"), .text = window.add_text(user)}});
    window.add_sample({labels, window.add_stack(std::vector{location})},
                      std::vector<std::int64_t>{1});
    add(merge, window);
  }
  PprofMerge of_bob;
  add(of_bob, merge.profile(), [](const PprofTables& tables, std::vector<PprofLabel>& labels) {
    return label_of(tables, labels, "user") == "bob";
  });
  const std::string bytes = encode_pprof(of_bob.profile());
  EXPECT_THAT(bytes, HasSubstr("/home/bob/lib.so"));
  EXPECT_THAT(bytes, Not(HasSubstr("alice")));
}

TEST_F(PprofMergeTest, AddsUpProcessesWithoutTheirPid) {
  PprofMerge merge;
  add(merge, window_of(0), [](const PprofTables& tables, std::vector<PprofLabel>& labels) {
    std::erase_if(labels, [&](const PprofLabel& l) { return tables.texts[l.key] == "pid"; });
    return true;
  });
  EXPECT_EQ(merge.profile().labels_count(), 2U);  // the two users
  EXPECT_THAT(test::go_pprof("-tags " + written(merge.profile(), "merged")), Not(HasSubstr("pid")));
}

}  // namespace
}  // namespace profd
