// The per-CPU cache is never used after its content has changed, and code is found wherever it is
// mapped.

#include <sched.h>

#include <algorithm>
#include <filesystem>
#include <set>

#include "tests/bpf/frames.h"
#include "tests/bpf/unwind_test.h"
#include "tests/bpf/workload.h"

namespace profd::test {
namespace {

class UnwindCacheTest : public UnwindTest {
 protected:
  // Pins the process to a CPU, the same one in each call.
  static void pin(const Workload& workload) {
    cpu_set_t allowed;
    cpu_set_t one;
    ASSERT_EQ(::sched_getaffinity(0, sizeof(allowed), &allowed), 0);
    CPU_ZERO(&one);
    int cpu = 0;
    while (!CPU_ISSET(cpu, &allowed)) ++cpu;
    CPU_SET(cpu, &one);
    ASSERT_EQ(::sched_setaffinity(static_cast<pid_t>(workload.pid()), sizeof(one), &one), 0);
  }

  std::vector<const StoredSample*> collect_in_leaf(const Workload& workload, std::size_t count) {
    return collect(count, [&, leaf = frames_label("leaf_spins")](const StoredSample& sample) {
      return sample.view.process.tgid == workload.pid() && !sample.view.user_frames.empty() &&
             sample.frame(0).address == leaf;
    });
  }

  std::vector<UnwindRow> rows_here(const Workload& workload, const FrameRules& rules) {
    return frames_rows(rules, mapping_at(workload.pid(), frames_label("enter")));
  }
};

// Every function is an entry function, so stacks have one frame.
FrameRules all_end() {
  FrameRules rules = frames_rules();
  for (auto& [name, rule] : rules) {
    rule = {};
    rule.kind = PROFD_RULE_END;
  }
  return rules;
}

TEST_F(UnwindCacheTest, TwoFilesWithCodeAtTheSameOffsetsKeepTheirRules) {
  const std::string copy = directory_ + "/frames";
  std::filesystem::copy_file(frames_path(), copy);
  const std::vector<std::string> kinds = {"plain", "clobber", "plain", "leaf"};
  const Workload first(kinds, {.program = frames_path()});
  const Workload second(kinds, {.program = copy});
  pin(first);
  pin(second);
  sample({first.pid(), second.pid()});
  install(mapping_at(first.pid(), frames_label("enter")).file, rows_here(first, frames_rules()), 1);
  install(mapping_at(second.pid(), frames_label("enter")).file, rows_here(second, all_end()), 2);
  raise_tables();
  for (int turn = 0; turn < 5; ++turn) {
    for (const StoredSample* sample : collect_in_leaf(first, 30)) {
      ASSERT_EQ(frames_of(*sample), frames_stack(kinds));
    }
    for (const StoredSample* sample : collect_in_leaf(second, 30)) {
      ASSERT_EQ(sample->view.user_frames.size(), 1U);
    }
  }
}

TEST_F(UnwindCacheTest, RulesAreCachedUntilTheTableGenerationChanges) {
  const std::vector<std::string> kinds = {"plain", "clobber", "framed", "by_rbx", "leaf"};
  const Workload workload(kinds, {.program = frames_path()});
  pin(workload);
  sample({workload.pid()});
  const FileKey file = mapping_at(workload.pid(), frames_label("enter")).file;
  install(file, rows_here(workload, frames_rules()));
  raise_tables();
  (void)collect_in_leaf(workload, 5);
  rewrite(rows_here(workload, all_end()));
  for (const StoredSample* sample : collect_in_leaf(workload, 30)) {
    EXPECT_GT(sample->view.user_frames.size(), 1U);
  }
  raise_tables();
  for (const StoredSample* sample : collect_in_leaf(workload, 30)) {
    EXPECT_EQ(sample->view.user_frames.size(), 1U);
    EXPECT_EQ(sample->view.user_end, PROFD_END_ENTRY);
  }
}

TEST_F(UnwindCacheTest, ARemovedTableIsNotUsedAfterTheTableGenerationChanges) {
  const Workload workload({"plain", "leaf"}, {.program = frames_path()});
  sample({workload.pid()});
  const FileKey file = mapping_at(workload.pid(), frames_label("enter")).file;
  install(file, rows_here(workload, frames_rules()));
  raise_tables();
  for (const StoredSample* sample : collect_in_leaf(workload, 20)) {
    EXPECT_EQ(sample->view.user_end, PROFD_END_ENTRY);
  }
  remove(file);
  raise_tables();
  for (const StoredSample* sample : collect_in_leaf(workload, 20)) {
    EXPECT_EQ(sample->view.user_end, PROFD_END_DEFERRED);
  }
}

TEST_F(UnwindCacheTest, TheTimeOfUseIsUpdatedForEachTableGeneration) {
  const Workload workload({"plain", "leaf"}, {.program = frames_path()});
  pin(workload);
  sample({workload.pid()});
  const FileKey file = mapping_at(workload.pid(), frames_label("enter")).file;
  install(file, rows_here(workload, frames_rules()));
  EXPECT_EQ(used_ns(file), 0U);
  for (int generation = 0; generation < 2; ++generation) {
    const std::uint64_t before = used_ns(file);
    raise_tables();
    (void)collect_in_leaf(workload, 20);
    EXPECT_GT(used_ns(file), before);
  }
}

// Code on both sides of a region's end: in_file enters it 16 bytes before.
struct Crossing {
  const char* name;
  CodeBytes code;
  std::uint64_t leaf;
  std::uint64_t caller;  // where it returns to
};

class UnwindCrossingTest : public UnwindCacheTest, public testing::WithParamInterface<Crossing> {};

TEST_P(UnwindCrossingTest, IsCompleteWithTheRowsOfBothFileRegions) {
  const Workload workload(
      {write_code_file(directory_, GetParam().code), "plain", "in_file", "leaf"},
      {.program = frames_path()});
  raise_tables();  // with a deferred stack all mappings are sent
  sample({workload.pid()});
  install(mapping_at(workload.pid(), frames_label("enter")).file,
          rows_here(workload, frames_rules()), 1);
  install(mapping_at(workload.pid(), kBoundaryAddress).file,
          {{.offset = kBoundaryOffset - 16, .rule = cfa_rule(PROFD_DWARF_RSP, 8)},
           {.offset = kBoundaryOffset, .rule = cfa_rule(PROFD_DWARF_RSP, 8)},
           {.offset = kBoundaryOffset + 64, .rule = {}}},
          2);
  raise_tables();
  const std::vector<KnownFrame> expected = {
      {GetParam().leaf, PROFD_FRAME_INTERRUPTED},
      {GetParam().caller, PROFD_FRAME_ROW},
      {frames_label("in_file_returns"), PROFD_FRAME_ROW},
      {frames_label("plain_returns"), PROFD_FRAME_ROW},
      {frames_label("enter_returns"), PROFD_FRAME_ROW},
  };
  const auto samples = collect(30, [](const StoredSample& sample) {
    return !sample.view.user_frames.empty() && sample.frame(0).address == GetParam().leaf;
  });
  for (const StoredSample* sample : samples) {
    EXPECT_EQ(frames_of(*sample), expected);
    EXPECT_EQ(sample->view.user_end, PROFD_END_ENTRY);
    EXPECT_EQ(sample->frame(0).mapping, sample->frame(1).mapping);
  }
}

INSTANTIATE_TEST_SUITE_P(
    UnwindMemory, UnwindCrossingTest,
    testing::Values(Crossing{"Upwards",
                             {{kBoundaryOffset - 16, {"\xe8\x0b\x00\x00\x00", 5}},
                              {kBoundaryOffset, kSpin}},
                             kBoundaryAddress,
                             kBoundaryAddress - 11},
                    Crossing{"Downwards",
                             {{kBoundaryOffset - 16, {"\xe9\x0b\x00\x00\x00", 5}},
                              {kBoundaryOffset - 8, kSpin},
                              {kBoundaryOffset, {"\xe8\xf3\xff\xff\xff", 5}}},
                             kBoundaryAddress - 8,
                             kBoundaryAddress + 5}),
    [](const auto& crossing) { return std::string(crossing.param.name); });

TEST_F(UnwindCacheTest, AStackOfMoreMappingsThanAreCachedIsComplete) {
  using std::string_literals::operator""s;
  constexpr std::uint64_t kPages = 40;
  CodeBytes pages;
  // Each page calls the next one, which is two further up: call 8192 - 5 bytes behind its end.
  for (std::uint64_t i = 0; i + 1 < kPages; ++i) pages[i * 4096] = "\xe8\xfb\x1f\x00\x00"s;
  pages[(kPages - 1) * 4096] = kSpin;
  const Workload workload(
      {"pages:" + write_code_file(directory_, pages), "plain", "in_pages", "leaf"},
      {.program = frames_path()});
  raise_tables();
  sample({workload.pid()});
  install(mapping_at(workload.pid(), frames_label("enter")).file,
          rows_here(workload, frames_rules()), 1);
  install(
      mapping_at(workload.pid(), kPagesAddress + (kPages - 1) * 8192).file,
      {{.offset = 0, .rule = cfa_rule(PROFD_DWARF_RSP, 8)}, {.offset = kPages * 4096, .rule = {}}},
      2);
  raise_tables();
  std::vector<KnownFrame> expected = {
      {kPagesAddress + (kPages - 1) * 8192, PROFD_FRAME_INTERRUPTED}};
  for (std::uint64_t i = kPages - 1; i-- > 0;) {
    expected.push_back({kPagesAddress + i * 8192 + 5, PROFD_FRAME_ROW});
  }
  for (const char* label : {"in_pages_returns", "plain_returns", "enter_returns"}) {
    expected.push_back({frames_label(label), PROFD_FRAME_ROW});
  }
  const auto samples = collect(30, [&](const StoredSample& sample) {
    return !sample.view.user_frames.empty() && sample.frame(0).address == expected.front().address;
  });
  for (const StoredSample* sample : samples) {
    ASSERT_EQ(frames_of(*sample), expected);
    EXPECT_EQ(sample->view.mapping_ids.size(), std::size_t{PROFD_MAX_STACK_MAPPINGS});
    EXPECT_EQ(sample->frame(14).mapping, 14U);
    EXPECT_EQ(sample->frame(15).mapping, unsigned{PROFD_NO_MAPPING});
  }
}

TEST_F(UnwindCacheTest, AMappingThatReplacesAnotherIsSeenByTheSameCpu) {
  const Workload workload({"remap", directory_});
  pin(workload);
  sample({workload.pid()});
  constexpr std::uint64_t kPlace = 0x700000000000;  // workload.c, map_code()
  std::set<std::uint64_t> inodes;
  const auto samples = collect(1, [&](const StoredSample& sample) {
    if (sample.view.user_frames.empty() || sample.frame(0).mapping == PROFD_NO_MAPPING) {
      return false;
    }
    const StoredMapping& mapping =
        sink_.mappings.at(sample.view.mapping_ids[sample.frame(0).mapping]);
    if (mapping.start == kPlace) inodes.insert(mapping.file.inode);
    return inodes.size() == 2;
  });
  EXPECT_FALSE(samples.empty());
}

TEST_F(UnwindCacheTest, TheTableOfTheVdsoHasItsOwnKey) {
  const Workload workload({"clock"});
  sample({workload.pid()});
  profd_rule end{};
  end.kind = PROFD_RULE_END;
  install(FileKey{.inode = PROFD_VDSO_INODE},
          {{.offset = 0, .rule = end}, {.offset = 1 << 16, .rule = {}}});
  raise_tables();
  const auto in_vdso = [&](const StoredSample& sample) {
    if (sample.view.user_frames.empty() || sample.frame(0).mapping == PROFD_NO_MAPPING)
      return false;
    const auto id = sample.view.mapping_ids[sample.frame(0).mapping];
    return sink_.mappings.at(id).kind == PROFD_MAPPING_VDSO;
  };
  for (const StoredSample* sample : collect(20, in_vdso)) {
    EXPECT_EQ(sample->view.user_frames.size(), 1U);
    EXPECT_EQ(sample->view.user_end, PROFD_END_ENTRY);
  }
}

}  // namespace
}  // namespace profd::test
