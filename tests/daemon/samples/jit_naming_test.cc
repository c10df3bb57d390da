#include "daemon/samples/jit_naming.h"

#include <cstdint>
#include <exception>
#include <functional>
#include <limits>
#include <memory>

#include <boost/asio/co_spawn.hpp>
#include <boost/asio/io_context.hpp>
#include <boost/asio/post.hpp>
#include <gtest/gtest.h>

#include "tests/daemon/profiles/handmade_session.h"
#include "tests/daemon/samples/synthetic_sample.h"

namespace profd {
namespace {

constexpr ProcessKey kRuntime{.tgid = 4321, .exec_id = 1, .start_ns = 100};

// Adds a process with a number of different stacks in JIT code, with one sample each.
void add_runtime(SessionSnapshot& snapshot, const ProcessKey& key, std::uint64_t stacks,
                 std::uint64_t frames) {
  ProcessSnapshot& process = test::add_process(snapshot, key, "runtime");
  StackTable& table = process.samples.stacks;
  for (std::uint64_t i = 0; i < stacks; ++i) {
    test::SyntheticSample sample(key);
    sample.leaf(0x10000 + i);
    for (std::uint64_t frame = 1; frame < frames; ++frame) sample.user(0x900000 + frame);
    const SampleView view = sample.view();
    table.add(view, StackTable::hash_of(view), std::numeric_limits<std::uint64_t>::max());
    table.keep_times_of_last_counted();
  }
  process.samples.jit.add(0, 1);
}

SessionSnapshot snapshot_of(std::uint64_t stacks, std::uint64_t frames) {
  SessionSnapshot snapshot = test::handmade_session();
  add_runtime(snapshot, kRuntime, stacks, frames);
  return snapshot;
}

// Returns the number of turns that others had meanwhile.
int resolve(boost::asio::io_context& io, JitNaming& naming, SessionSnapshot& snapshot) {
  bool is_over = false;
  boost::asio::co_spawn(io, naming.resolve_in_time(snapshot),
                        [&is_over](const std::exception_ptr&) { is_over = true; });
  int turns = 0;
  const std::function<void()> take_turn = [&] {
    if (is_over) return;
    ++turns;
    boost::asio::post(io, take_turn);
  };
  take_turn();
  while (!is_over) io.run_one();
  io.poll();
  return turns;
}

std::uint64_t late_of(const JitNaming& naming) {
  return naming.stats().refused[static_cast<std::size_t>(JitRefusal::kLate)];
}

TEST(JitNaming, SamplesThatTakeTooLongInAWindowHaveNoNamesAndAreCounted) {
  boost::asio::io_context io;
  JitNaming naming(io, JitProcesses::start({}).value());
  SessionSnapshot small = snapshot_of(10, 10);
  resolve(io, naming, small);
  EXPECT_EQ(late_of(naming), 0U);
  // These are thirteen million look-ups. Each reads the clock, which alone takes more than
  // kMaxTime.
  SessionSnapshot large = snapshot_of(100'000, 128);
  // 1,000 frames are resolved in one turn.
  EXPECT_GT(resolve(io, naming, large), 10'000) << "others have their turns";
  EXPECT_EQ(late_of(naming), 1U);
  ASSERT_TRUE(large.processes.front().jit);
  EXPECT_EQ(large.processes.front().jit->runs.size(), 100'000U) << "every sample is there";
  naming.stop();
  io.run();
}

TEST(JitNaming, AProcessThatTakesTooLongLeavesTheOthersTheirTime) {
  boost::asio::io_context io;
  JitNaming naming(io, JitProcesses::start({}).value());
  SessionSnapshot both = snapshot_of(100'000, 128);
  add_runtime(both, {.tgid = 4322, .exec_id = 1, .start_ns = 100}, 10, 10);
  resolve(io, naming, both);
  EXPECT_EQ(late_of(naming), 1U);
  naming.stop();
  io.run();
}

}  // namespace
}  // namespace profd
