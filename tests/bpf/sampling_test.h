// The fixture of the kernel tests: a Sampler on this kernel with the real programs. Needs root;
// without it every test fails, none is skipped.

#pragma once

#include <chrono>
#include <functional>
#include <memory>
#include <string>

#include <gtest/gtest.h>

#include "collectors/sampling/sampler.h"
#include "tests/bpf/recording_sink.h"

namespace profd::test {

class SamplingTest : public testing::Test {
 protected:
  void SetUp() override { open({}); }
  void open(const SamplerOptions& options);

  // Starts a session with the event cpu-clock, which every host supports.
  SessionSlot start(const Target& target, std::uint64_t frequency_hz = 999);
  SessionSlot start(const Target& target, const EventSpec& event);

  // Drains until the condition holds; fails the test after a minute.
  void collect_until(const std::function<bool()>& condition);
  // Drains until there are so many samples of a process.
  void collect(std::uint32_t tgid, std::size_t samples);
  void collect_for(std::chrono::milliseconds time);

  // Ends the session and checks that the ledgers of the slot and of the Sampler balance.
  SlotLedger stop_balanced(SessionSlot slot);

  RecordingSink sink_;
  std::unique_ptr<Sampler> sampler_;
};

[[nodiscard]] EventSpec event_of(const std::string& name, std::uint64_t frequency_hz,
                                 std::uint64_t period = 0);
[[nodiscard]] Target target_of_pid(std::uint32_t pid);
[[nodiscard]] Target target_of_all();
[[nodiscard]] std::uint64_t total(const LossCounts& lost);
[[nodiscard]] std::int64_t difference(const SamplerLedger& ledger);

}  // namespace profd::test
