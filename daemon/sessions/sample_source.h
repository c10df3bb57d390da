// What sessions need of a source of samples. The Sampler is one; a test brings its own.

#pragma once

#include <memory>

#include "collectors/sampling/sampler.h"
#include "collectors/unwinding/stats.h"

namespace profd {

// The verbs are the Sampler's: its header has their contracts.
class SampleSource {
 public:
  SampleSource() = default;
  SampleSource(const SampleSource&) = delete;
  SampleSource& operator=(const SampleSource&) = delete;
  virtual ~SampleSource() = default;

  virtual Result<SessionSlot> start(const EventSpec& event, const Target& target) = 0;
  virtual Result<SessionSlot> hand_over(SessionSlot slot) = 0;
  [[nodiscard]] virtual bool is_settled(SessionSlot slot) const = 0;
  virtual SlotLedger stop(SessionSlot slot) = 0;
  virtual void drain() = 0;
  [[nodiscard]] virtual int wake_fd() const = 0;
  [[nodiscard]] virtual bool has_targets(SessionSlot slot) const = 0;
  [[nodiscard]] virtual SlotLedger slot_ledger(SessionSlot slot) const = 0;
  [[nodiscard]] virtual SamplerLedger ledger() const = 0;
  [[nodiscard]] virtual UnwindStats unwind_stats() const = 0;
  virtual void release_files() = 0;
};

// `sampler` is not null.
[[nodiscard]] std::unique_ptr<SampleSource> make_sample_source(std::unique_ptr<Sampler> sampler);

}  // namespace profd
