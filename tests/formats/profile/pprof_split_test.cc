#include "formats/profile/pprof_split.h"

#include <algorithm>
#include <cstdint>
#include <string>
#include <vector>

#include <gmock/gmock.h>

#include "formats/profile/pprof_merge.h"
#include "formats/profile/pprof_reader.h"
#include "formats/profile/pprof_writer.h"

namespace profd {
namespace {

using testing::ElementsAre;
using testing::Pair;

class PprofSplitTest : public testing::Test {
 protected:
  void add(std::int64_t pid, const std::string& comm, const std::string& unit,
           std::int64_t samples) {
    const auto text = [this](const char* key, const std::string& value) {
      return PprofLabel{.key = profile_.add_text(key), .text = profile_.add_text(value)};
    };
    std::vector<PprofLabel> labels{text("comm", comm), text("unit", unit)};
    if (pid != 0) labels.push_back({.key = profile_.add_text("pid"), .number = pid});
    const PprofLine line{.function = profile_.add_function({.name = profile_.add_text(comm)})};
    const std::uint32_t location = profile_.add_location({.address = 1}, {&line, 1});
    profile_.add_sample({.labels = profile_.add_labels(std::move(labels)),
                         .stack = profile_.add_stack({&location, 1})},
                        std::vector{samples});
  }

  std::vector<std::pair<std::string, std::int64_t>> parts(PprofSplitKey key) {
    const std::string bytes = encode_pprof(profile_);
    std::vector<std::pair<std::string, std::int64_t>> sums;
    for (const PprofPart& part : split_pprof(*read_pprof_tables(bytes), key)) {
      std::int64_t sum = 0;
      for (std::size_t i = 0; i < part.profile.samples().size(); ++i) {
        sum += part.profile.values(i)[0];
      }
      sums.emplace_back(part.name, sum);
      EXPECT_EQ(part.profile.mappings().size(), profile_.mappings().size());
    }
    return sums;
  }

  PprofProfile profile_{{{"samples", "count"}}};
};

TEST_F(PprofSplitTest, EachSampleIsInThePartOfItsLabels) {
  add(7, "web", "nginx.service", 1);
  add(8, "web", "nginx.service", 2);
  add(9, "cron", "-", 4);
  EXPECT_THAT(parts(PprofSplitKey::kProcess),
              ElementsAre(Pair("cron.9", 4), Pair("web.7", 1), Pair("web.8", 2)));
  EXPECT_THAT(parts(PprofSplitKey::kUnit),
              ElementsAre(Pair("nginx.service", 3), Pair("no-unit", 4)));
  EXPECT_THAT(parts(PprofSplitKey::kContainer), ElementsAre(Pair("no-container", 7)));
}

TEST_F(PprofSplitTest, ProcessesWithoutPidAreOnePartEachName) {
  add(0, "cc1plus", "-", 1);
  add(0, "cc1plus", "build.service", 2);
  EXPECT_THAT(parts(PprofSplitKey::kProcess), ElementsAre(Pair("cc1plus", 3)));
}

TEST_F(PprofSplitTest, APartHasNothingOfTheOthers) {
  add(7, "web", "-", 1);
  add(8, "secret", "-", 2);
  const std::string bytes = encode_pprof(profile_);
  const auto parts = split_pprof(*read_pprof_tables(bytes), PprofSplitKey::kProcess);
  ASSERT_EQ(parts.size(), 2U);
  EXPECT_EQ(encode_pprof(parts[1].profile).find("secret"), std::string::npos);
}

// Also the order of its tables.
TEST_F(PprofSplitTest, APartIsWhatAMergeOfItsSamplesAloneGives) {
  for (const std::int64_t pid : {9, 7, 8, 9, 7}) {
    const std::string comm = "work" + std::to_string(pid);
    add(pid, comm, "a.service", 1);
    add(pid, "thread of " + comm, pid == 7 ? "b.service" : "c.service", pid);
  }
  profile_.comments = {"remark"};
  profile_.duration_ns = 5;
  const std::string bytes = encode_pprof(profile_);
  const auto tables = read_pprof_tables(bytes);
  const auto parts = split_pprof(*tables, PprofSplitKey::kUnit);
  EXPECT_EQ(parts.size(), 3U);
  for (const PprofPart& part : parts) {
    PprofMerge merge;
    const auto of_part = [&part](const PprofTables& from, std::vector<PprofLabel>& labels) {
      return std::ranges::any_of(
          labels, [&](const PprofLabel& label) { return from.texts[label.text] == part.name; });
    };
    ASSERT_TRUE(merge.add(*tables, of_part));
    EXPECT_EQ(encode_pprof(part.profile), encode_pprof(merge.profile())) << part.name;
  }
}

TEST_F(PprofSplitTest, OtherKeysAreRefused) {
  EXPECT_EQ(parse_split_key("unit").value(), PprofSplitKey::kUnit);
  for (const char* name : {"", "pid", "user", "Unit"}) EXPECT_FALSE(parse_split_key(name)) << name;
}

}  // namespace
}  // namespace profd
