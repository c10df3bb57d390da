#include "daemon/sessions/sample_source.h"

#include <utility>

namespace profd {
namespace {

class SamplerSource final : public SampleSource {
 public:
  explicit SamplerSource(std::unique_ptr<Sampler> sampler) : sampler_(std::move(sampler)) {}

  Result<SessionSlot> start(const EventSpec& event, const Target& target) override {
    return sampler_->start(event, target);
  }
  Result<SessionSlot> hand_over(SessionSlot slot) override { return sampler_->hand_over(slot); }
  [[nodiscard]] bool is_settled(SessionSlot slot) const override {
    return sampler_->is_settled(slot);
  }
  SlotLedger stop(SessionSlot slot) override { return sampler_->stop(slot); }
  void drain() override { sampler_->drain(); }
  [[nodiscard]] int wake_fd() const override { return sampler_->wake_fd(); }
  [[nodiscard]] bool has_targets(SessionSlot slot) const override {
    return sampler_->has_targets(slot);
  }
  [[nodiscard]] SlotLedger slot_ledger(SessionSlot slot) const override {
    return sampler_->slot_ledger(slot);
  }
  [[nodiscard]] SamplerLedger ledger() const override { return sampler_->ledger(); }
  [[nodiscard]] UnwindStats unwind_stats() const override { return sampler_->unwind_stats(); }
  void release_files() override { sampler_->release_files(); }

 private:
  std::unique_ptr<Sampler> sampler_;
};

}  // namespace

std::unique_ptr<SampleSource> make_sample_source(std::unique_ptr<Sampler> sampler) {
  return std::make_unique<SamplerSource>(std::move(sampler));
}

}  // namespace profd
