#include "formats/profile/stack_texts.h"

#include <array>
#include <cstdint>
#include <limits>
#include <string>
#include <vector>

#include <boost/json/parse.hpp>
#include <gtest/gtest.h>

namespace profd {
namespace {

// Two processes; in the first, "inner" is inlined into "work".
class StackTextsTest : public testing::Test {
 protected:
  StackTextsTest() {
    profile_.default_sample_type = "cpu";
    const PprofLine main = line("main", 3);
    const std::array work{line("inner", 11), line("work;all\n", 12)};
    const std::array stack{profile_.add_location({.address = 16}, work),
                           profile_.add_location({.address = 32}, {&main, 1})};
    add("web", 7, stack, 5);
    add("db", 8, std::span(stack).last(1), 9);
  }

  PprofLine line(const std::string& name, std::int64_t number) {
    return {.function = profile_.add_function(
                {.name = profile_.add_text(name), .file = profile_.add_text("/src/a.cc")}),
            .line = number};
  }

  void add(const std::string& comm, std::int64_t pid, std::span<const std::uint32_t> stack,
           std::int64_t samples, const std::string& thread = {}) {
    const std::uint32_t labels = profile_.add_labels(
        {{.key = profile_.add_text("pid"), .number = pid},
         {.key = profile_.add_text("comm"), .text = profile_.add_text(comm)},
         {.key = profile_.add_text("thread"), .text = profile_.add_text(thread)}});
    const std::array values{samples, samples * 1000};
    profile_.add_sample({.labels = labels, .stack = profile_.add_stack(stack)}, values);
  }

  PprofProfile profile_{{{"samples", "count"}, {"cpu", "nanoseconds"}}};
};

TEST_F(StackTextsTest, FoldedStacksHaveInlinedFunctionsAsFrames) {
  EXPECT_EQ(folded_stacks(profile_), "db;main 9\nweb;main;work:all?;inner 5\n");
}

TEST_F(StackTextsTest, ASpeedscopeFileHasAProfileForEachProcessTheLargestFirst) {
  const boost::json::value file = boost::json::parse(speedscope_json(profile_, "00c0ffee"));
  EXPECT_EQ(file.at("name"), "00c0ffee");
  const auto& profiles = file.at("profiles").as_array();
  ASSERT_EQ(profiles.size(), 2U);
  EXPECT_EQ(profiles[0].at("name"), "db (8)");
  EXPECT_EQ(profiles[0].at("unit"), "nanoseconds");
  EXPECT_EQ(profiles[0].at("endValue"), 9000);
  EXPECT_EQ(profiles[1].at("weights"), boost::json::array({5000}));
  const auto& frames = file.at("shared").at("frames").as_array();
  const auto& stack = profiles[1].at("samples").at(0).as_array();
  ASSERT_EQ(stack.size(), 3U);
  EXPECT_EQ(frames.at(stack[0].to_number<std::size_t>()).at("name"), "main");
  EXPECT_EQ(frames.at(stack[2].to_number<std::size_t>()).at("name"), "inner");
  EXPECT_EQ(frames.at(stack[2].to_number<std::size_t>()).at("line"), 11);
  EXPECT_EQ(frames.at(stack[2].to_number<std::size_t>()).at("file"), "/src/a.cc");
}

TEST_F(StackTextsTest, AThreadIsTheOutermostFrame) {
  const PprofLine run = line("run", 1);
  const std::array stack{profile_.add_location({.address = 48}, {&run, 1})};
  add("web", 7, stack, 2, "worker;#");
  EXPECT_EQ(folded_stacks(profile_), "db;main 9\nweb;main;work:all?;inner 5\nweb;worker:#;run 2\n");
  const boost::json::value file = boost::json::parse(speedscope_json(profile_, "00c0ffee"));
  const auto& frames = file.at("shared").at("frames").as_array();
  const auto& threads = file.at("profiles").at(1).at("samples").as_array();
  const auto& named = threads.at(1).as_array();
  ASSERT_EQ(named.size(), 2U);
  EXPECT_EQ(frames.at(named[0].to_number<std::size_t>()).at("name"), "worker;#");
  EXPECT_EQ(frames.at(named[1].to_number<std::size_t>()).at("name"), "run");
  EXPECT_EQ(threads.at(0).as_array().size(), 3U);
}

// A pid that was used again, and threads of one process.
TEST_F(StackTextsTest, ASpeedscopeFileTellsProcessesOfOnePidApart) {
  const PprofLine other = line("other", 1);
  const std::array stack{profile_.add_location({.address = 48}, {&other, 1})};
  add("next", 7, stack, 1);
  add("next", 7, stack, 2, "worker");
  const boost::json::value file = boost::json::parse(speedscope_json(profile_, "00c0ffee"));
  const auto& profiles = file.at("profiles").as_array();
  ASSERT_EQ(profiles.size(), 3U);
  EXPECT_EQ(profiles[1].at("name"), "web (7)");
  EXPECT_EQ(profiles[1].at("endValue"), 5000);
  EXPECT_EQ(profiles[2].at("name"), "next (7)");
  EXPECT_EQ(profiles[2].at("endValue"), 3000);
}

// One process with a stall, many short waits, and rests below a microsecond.
class BlockTextsTest : public testing::Test {
 protected:
  BlockTextsTest() {
    profile_.default_sample_type = "off_cpu";
    add("stall", "futex", "S", 1, 3'000'000'000);
    add("shorts", "pipe", "S", 1'000'000, 20'000'600);
    add("tiny", "other", "D", 1, 300);
    add("unrelated", "lock", "D", 1, 1'100);
  }

  void add(const std::string& name, const std::string& wait, const std::string& state,
           std::int64_t blocks, std::int64_t ns) {
    const auto text = [this](const std::string& of) { return profile_.add_text(of); };
    const PprofLine line{.function = profile_.add_function({.name = text(name)}), .line = 1};
    const std::uint32_t location = profile_.add_location({.address = 16}, {&line, 1});
    const std::uint32_t labels =
        profile_.add_labels({{.key = text("pid"), .number = 7},
                             {.key = text("comm"), .text = text("waits")},
                             {.key = text("state"), .text = text(state)},
                             {.key = text("wait"), .text = text(wait)},
                             {.key = text("ongoing"), .text = text("yes")}});
    const std::array values{blocks, ns};
    profile_.add_sample({.labels = labels, .stack = profile_.add_stack({&location, 1})}, values);
  }

  PprofProfile profile_{{{"blocks", "count"}, {"off_cpu", "nanoseconds"}}};
};

// Finds: numbers of blocks, by which the short waits are a million times the stall; and rests that
// are lost: 600, 300 and 100 ns are a microsecond.
TEST_F(BlockTextsTest, FoldedStacksOfBlocksCountMicroseconds) {
  EXPECT_EQ(folded_stacks(profile_),
            "waits;shorts 20000\nwaits;stall 3000000\nwaits;unrelated 2\n");
}

// Finds: a profile for each state and kind of wait.
TEST_F(BlockTextsTest, ASpeedscopeFileHasOneProfileForAllBlocksOfAProcess) {
  const boost::json::value file = boost::json::parse(speedscope_json(profile_, "x"));
  const auto& profiles = file.at("profiles").as_array();
  ASSERT_EQ(profiles.size(), 1U);
  EXPECT_EQ(profiles[0].at("name"), "waits (7)");
  EXPECT_EQ(profiles[0].at("samples").as_array().size(), 4U);
  EXPECT_EQ(profiles[0].at("endValue"), 3'020'002'000);
}

TEST(EmptyStackTextsTest, AProfileWithoutSamplesHasNoStacks) {
  const std::vector<PprofValueType> types{{"samples", "count"}};
  const PprofProfile empty(types);
  EXPECT_EQ(folded_stacks(empty), "");
  EXPECT_TRUE(boost::json::parse(speedscope_json(empty, "x")).at("profiles").as_array().empty());
}

TEST_F(StackTextsTest, SumsStopAtTheLimitsOfTheirType) {
  constexpr std::int64_t kMost = std::numeric_limits<std::int64_t>::max();
  PprofProfile profile(std::vector<PprofValueType>{{"samples", "count"}});
  for (const std::int64_t number : {1, 2}) {
    const PprofFunction function{.name = profile.add_text("f")};
    const PprofLine line{.function = profile.add_function(function), .line = number};
    const std::uint32_t location = profile.add_location({.address = 16}, {&line, 1});
    profile.add_sample(
        {.labels = profile.add_labels({}), .stack = profile.add_stack({&location, 1})},
        std::array{kMost});
  }
  EXPECT_EQ(folded_stacks(profile), "f 9223372036854775807\n");
  const boost::json::value file = boost::json::parse(speedscope_json(profile, "x"));
  EXPECT_EQ(file.at("profiles").at(0).at("endValue"), kMost);
}

}  // namespace
}  // namespace profd
