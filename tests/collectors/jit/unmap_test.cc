// An unmap ends the code in the memory, for that process and from then on.

#include <map>
#include <memory>
#include <string>
#include <vector>

#include <gmock/gmock.h>

#include "collectors/jit/code_memory.h"
#include "collectors/jit/processes.h"
#include "tests/collectors/jit/runtime.h"

namespace profd::test {
namespace {

using ::testing::ElementsAre;
using ::testing::SizeIs;

constexpr std::uint64_t kCode = 0x10000;
constexpr std::uint64_t kBorn = 1000;
constexpr std::uint64_t kUnmapped = 2000;
constexpr std::uint64_t kLater = 3000;

UnmapView unmap_of(const ProcessKey& process, std::uint64_t time_ns = kUnmapped) {
  return {.process = process, .time_ns = time_ns, .start = kCode, .end = kCode + 0x1000};
}

class JitUnmapTest : public testing::Test {
 protected:
  void SetUp() override {
    auto started = JitProcesses::start({
        .watch_memory =
            [this](const ProcessKey& process, std::span<const AddressRange> ranges) {
              watched_[process] = {ranges.begin(), ranges.end()};
            },
    });
    ASSERT_TRUE(started) << started.error().message;
    processes_ = std::move(*started);
  }

  [[nodiscard]] std::string name(const ProcessKey& process, std::uint64_t time_ns,
                                 std::uint64_t address = kCode) {
    return name_at(*processes_, process, address, time_ns);
  }
  [[nodiscard]] bool comes_to_be(const ProcessKey& process, std::uint64_t time_ns,
                                 const std::string& expected, std::uint64_t address = kCode) {
    return wait_for(*processes_, [&] { return name(process, time_ns, address) == expected; });
  }

  PrivateDirectory directory_;
  const std::string path_ = directory_ / "dump";
  std::map<ProcessKey, std::vector<AddressRange>> watched_;
  std::unique_ptr<JitProcesses> processes_;
};

class JitUnmapOfOneTest : public JitUnmapTest {
 protected:
  void SetUp() override {
    JitUnmapTest::SetUp();
    write_file(path_, std::string(40, '\0'));
    runtime_ = std::make_unique<Runtime>([this] { return map_marker(path_.c_str()); });
    ASSERT_TRUE(runtime_->is_ready());
    write_file(path_, dump_of(runtime_->pid(), {.name = "f", .address = kCode, .time_ns = kBorn}));
    processes_->on_mapping(jit_code_of(key()));
    ASSERT_TRUE(comes_to_be(key(), kLater, "f"));
  }
  [[nodiscard]] const ProcessKey& key() const { return runtime_->key(); }

  std::unique_ptr<Runtime> runtime_;
};

TEST_F(JitUnmapOfOneTest, CodeEndsWithItsMemoryAndKeepsItsNameUntilThen) {
  processes_->on_unmap(unmap_of(key()));
  EXPECT_EQ(name(key(), kUnmapped - 1), "f");
  EXPECT_EQ(name(key(), kUnmapped), "");
}

TEST_F(JitUnmapOfOneTest, TheSameFunctionCompiledThereAgainHasItsNameAgain) {
  processes_->on_unmap(unmap_of(key()));
  append_file(path_, load_of(runtime_->pid(), {.name = "f", .address = kCode, .time_ns = kLater}));
  EXPECT_TRUE(comes_to_be(key(), kLater, "f"));
  EXPECT_EQ(processes_->info(key())->functions, 2U);
}

TEST_F(JitUnmapOfOneTest, ALateRecordOfTheTimeAfterTheUnmapIsNotEnded) {
  append_file(path_, load_of(runtime_->pid(), {.name = "g", .address = kCode, .time_ns = kLater}));
  ASSERT_TRUE(comes_to_be(key(), kLater, "g"));
  processes_->on_unmap(unmap_of(key()));
  EXPECT_EQ(name(key(), kUnmapped - 1), "f");
  EXPECT_EQ(name(key(), kLater), "g");
}

TEST_F(JitUnmapOfOneTest, UnmapsTakeNoMoreRoomThanTheCode) {
  const std::uint64_t before = processes_->stats().bytes;
  for (std::uint64_t i = 0; i < 100'000; ++i) processes_->on_unmap(unmap_of(key(), kUnmapped + i));
  EXPECT_LT(processes_->stats().bytes, before + JitCodeMap::kFreeUnmaps * 512);
  EXPECT_EQ(name(key(), kUnmapped), "");
}

TEST_F(JitUnmapOfOneTest, OnlyTheMemoryOfAProcessWithKnownCodeIsWatchedUntilItIsGone) {
  EXPECT_THAT(watched_[key()], ElementsAre(AddressRange{.start = 0x10000, .end = 0x20000}));
  const Runtime other;
  ASSERT_TRUE(other.is_ready());
  processes_->on_mapping(jit_code_of(other.key()));
  MappingView more = jit_code_of(key());
  more.start = 0x30000;
  more.end = 0x31000;
  processes_->on_mapping(more);
  EXPECT_THAT(watched_[key()], SizeIs(2));
  EXPECT_THAT(watched_, SizeIs(1));
  runtime_->end();
  EXPECT_TRUE(wait_for(*processes_, [&] { return watched_[key()].empty(); }));
}

TEST_F(JitUnmapTest, AParentAndItsForkedChildUnmapTheirCodeSeparately) {
  write_file(path_, std::string(40, '\0'));
  const ForkedRuntime family([&] { return map_marker(path_.c_str()); });
  const Runtime& parent = family.parent();
  ASSERT_TRUE(family.is_ready());
  const ProcessKey child_key = key_of(family.child());
  write_file(path_, dump_of(parent.pid(), {.name = "a", .address = kCode}) +
                        load_of(parent.pid(), {.name = "b", .address = kCode + 0x1000}));
  processes_->on_mapping(jit_code_of(child_key));
  processes_->on_mapping(jit_code_of(parent.key()));
  ASSERT_TRUE(comes_to_be(child_key, UINT64_MAX - 1, "a"));
  ASSERT_TRUE(comes_to_be(parent.key(), UINT64_MAX - 1, "a"));
  const std::uint64_t now = monotonic_ns();
  UnmapView second = unmap_of(parent.key(), now);
  second.start += 0x1000;
  second.end += 0x1000;
  processes_->on_unmap(unmap_of(child_key, now));
  processes_->on_unmap(second);
  EXPECT_EQ(name(child_key, now), "");
  EXPECT_EQ(name(child_key, now - 1), "a");
  EXPECT_EQ(name(child_key, now, kCode + 0x1000), "b");
  EXPECT_EQ(name(parent.key(), now), "a");
  EXPECT_EQ(name(parent.key(), now, kCode + 0x1000), "");
}

TEST(JitCodeRangesTest, RangesThatTouchAreJoined) {
  JitCodeRanges ranges;
  EXPECT_TRUE(ranges.add({.start = 100, .end = 200}));
  EXPECT_TRUE(ranges.add({.start = 300, .end = 400}));
  EXPECT_FALSE(ranges.add({.start = 120, .end = 180}));
  EXPECT_THAT(ranges.all(), SizeIs(2));
  EXPECT_TRUE(ranges.add({.start = 200, .end = 300}));
  EXPECT_THAT(ranges.all(), ElementsAre(AddressRange{.start = 100, .end = 400}));
  EXPECT_TRUE(ranges.add({.start = 50, .end = 500}));
  EXPECT_THAT(ranges.all(), ElementsAre(AddressRange{.start = 50, .end = 500}));
}

TEST(JitCodeRangesTest, OfTooManyRangesTheNearestAreJoined) {
  JitCodeRanges ranges;
  for (std::uint64_t i = 0; i < JitCodeRanges::kMaxRanges; ++i) {
    ranges.add({.start = i * 1000, .end = i * 1000 + 100});
  }
  EXPECT_TRUE(ranges.add({.start = 3150, .end = 3200}));
  EXPECT_THAT(ranges.all(), SizeIs(JitCodeRanges::kMaxRanges));
  EXPECT_EQ(ranges.all()[3], (AddressRange{.start = 3000, .end = 3200}));
}

}  // namespace
}  // namespace profd::test
