// A Sampler whose samples the test makes.

#pragma once

#include <sys/eventfd.h>

#include <array>
#include <bit>
#include <deque>
#include <functional>
#include <memory>
#include <optional>
#include <utility>
#include <vector>

#include <gtest/gtest.h>

#include "collectors/sampling/sampler.h"
#include "daemon/samples/aggregator.h"
#include "tests/daemon/samples/synthetic_sample.h"

namespace profd::test {

class FakeSource final : public Sampler {
 public:
  struct Slot {
    EventSpec event;
    Target target;
    SlotLedger ledger;
    bool has_targets = true;
    bool is_ending = false;
  };

  explicit FakeSource(Aggregator& sink) : sink_(sink), wake_(::eventfd(0, EFD_CLOEXEC)) {}

  // The sample waits for the next drain, as if the kernel side had sent it.
  void take(SyntheticSample sample, SessionSlot slot) {
    ++slots.at(slot)->ledger.taken;
    waiting_.push_back(std::move(sample.sessions(1U << slot)));
  }

  // A block that is open, of any slot, and counts so much up to now.
  void open_block(SyntheticSample sample, std::uint64_t ns) {
    const auto kept = std::make_shared<const KeptSample>(std::move(sample));
    const BlockTerm term{.blocks = 1, .ns = ns};
    ongoing.blocks.push_back({.sample = {kept, &kept->view}, .term = term, .own_ns = ns});
    ongoing.ledger.delivered += term;
    ongoing.ledger.ongoing += term;
  }

  Result<SessionSlot> start(const EventSpec& event, const Target& target) override {
    if (error) return *error;
    for (SessionSlot slot = 0; slot < slots.size(); ++slot) {
      if (slots[slot]) continue;
      slots[slot] = Slot{.event = event, .target = target, .ledger = {}, .has_targets = true};
      return slot;
    }
    return fail(ErrorCode::kBusy, "no slot");
  }
  Result<bool> has_begun(SessionSlot slot) override {
    if (not_begun) {
      slots.at(slot).reset();
      return *not_begun;
    }
    if (calls_until_begun == 0) return true;
    --calls_until_begun;
    return false;
  }
  Result<SessionSlot> move_to_new_slot(SessionSlot slot) override {
    if (error) return *error;
    ++moves;
    const Slot from = *slots.at(slot);
    slots.at(slot)->is_ending = true;
    return start(from.event, from.target);
  }
  [[nodiscard]] OngoingBlocks ongoing_blocks(SessionSlot) const override { return ongoing; }
  bool deliver_ongoing_blocks(SessionSlot slot) override {
    for (const OngoingBlock& block : ongoing.blocks) sink_.on_sample(block.valued(slot));
    if (slots.at(slot)->ledger.blocks) *slots.at(slot)->ledger.blocks += ongoing.ledger;
    ongoing = {};
    return false;
  }
  [[nodiscard]] bool is_settled(SessionSlot) const override { return waiting_.empty() && !is_late; }
  SlotLedger stop(SessionSlot slot) override {
    EXPECT_TRUE(slots.at(slot)->is_ending) << "end_matching() comes first";
    drain();
    return std::exchange(slots.at(slot), std::nullopt)->ledger;
  }
  bool drain() override {
    ++drains;
    while (!waiting_.empty()) {
      const SampleView sample = waiting_.front().view();
      auto& slot = slots.at(static_cast<SessionSlot>(std::countr_zero(sample.sessions)));
      if (slot) ++slot->ledger.received;
      if (slot && slot->ledger.blocks) {
        slot->ledger.blocks->delivered.blocks += sample.count;
        slot->ledger.blocks->delivered.ns += sample.block.ns;
      }
      sink_.on_sample(sample);
      waiting_.pop_front();
    }
    return is_flooded;
  }
  [[nodiscard]] int wake_fd() const override { return wake_.get(); }
  [[nodiscard]] bool has_targets(SessionSlot slot) override { return slots.at(slot)->has_targets; }
  [[nodiscard]] SlotLedger slot_ledger(SessionSlot slot) const override {
    return slots.at(slot)->ledger;
  }
  [[nodiscard]] SamplerLedger ledger() override { return totals; }
  void end_matching(SessionSlot slot) override { slots.at(slot)->is_ending = true; }
  [[nodiscard]] std::vector<BpfFunction> bpf_functions() const override { return {}; }
  [[nodiscard]] UnwindStats unwind_stats() const override { return unwinding; }
  void set_jit_code_rows(const ProcessKey&, std::uint32_t, std::uint32_t, EncodeTable) override {}
  Result<void> watch_unmaps(const ProcessKey&, std::span<const AddressRange>) override {
    return {};
  }
  void release_files() override { ++releases; }
  [[nodiscard]] bool needs(const ProcessKey& process) const override { return needed == process; }
  void detach_unneeded_hooks() override {}

  std::array<std::optional<Slot>, PROFD_MAX_SESSIONS> slots;
  SamplerLedger totals;
  UnwindStats unwinding;
  std::optional<Error> error;        // given by start(), when set
  std::optional<Error> not_begun;    // given by has_begun(), when set
  int calls_until_begun = 0;         // of has_begun()
  std::optional<ProcessKey> needed;  // that has an open block
  OngoingBlocks ongoing;
  bool is_late = false;     // samples are still on their way
  bool is_flooded = false;  // each drain leaves samples in the rings
  int drains = 0;
  int releases = 0;
  int moves = 0;

 private:
  struct KeptSample {
    explicit KeptSample(SyntheticSample kept) : sample(std::move(kept)), view(sample.view()) {}
    KeptSample(const KeptSample&) = delete;
    KeptSample& operator=(const KeptSample&) = delete;
    ~KeptSample() = default;

    SyntheticSample sample;
    SampleView view;
  };

  Aggregator& sink_;
  UniqueFd wake_;
  std::deque<SyntheticSample> waiting_;
};

}  // namespace profd::test
