// Recordings of samples: every event but the calls of instrumented apps.
//
// While a recording runs, its samples are in the aggregator, under its slot of the sampler. On the
// io thread.

#pragma once

#include <cstddef>
#include <memory>
#include <string_view>

#include <boost/asio/awaitable.hpp>
#include <boost/asio/io_context.hpp>

#include "collectors/host/uid_owners.h"
#include "collectors/host/user_refusals.h"
#include "collectors/sampling/sampler.h"
#include "daemon/samples/aggregator.h"
#include "daemon/samples/drain_loop.h"
#include "daemon/samples/jit_naming.h"
#include "daemon/samples/sample_budget.h"
#include "daemon/sessions/caller_limits.h"
#include "daemon/sessions/cgroup_tree.h"
#include "daemon/sessions/recording.h"

namespace profd {

class SampleRecorder final : public Recorder {
 public:
  // All must outlive the recorder and its recordings.
  struct Parts {
    boost::asio::io_context& io;
    Sampler& source;
    Aggregator& aggregator;  // the sink of `source`
    DrainLoop& drain_loop;
    const SessionLimits& limits;
    UidOwners& owners;
    JitNaming* naming = nullptr;       // null: JIT code has no names
    UserRefusals* refusals = nullptr;  // null: samples over the limit are not counted by user
  };

  explicit SampleRecorder(Parts parts);

  [[nodiscard]] bool records(std::string_view event) const override;
  // In the kernel, at each sample (Target::restrict_to).
  [[nodiscard]] bool checks_rights() const override { return true; }
  [[nodiscard]] boost::asio::awaitable<void> prepare(TargetRequest target) override;
  [[nodiscard]] Result<std::shared_ptr<Recording>> start(RecordingRequest request) override;
  void every_second() override;

  [[nodiscard]] std::size_t running() const { return running_; }

  // Of the samples of unprivileged callers.
  [[nodiscard]] const SampleBudget& budget() const { return *budget_; }

 private:
  class SampleRecording;

  void count_running(std::ptrdiff_t change);
  // Null: a privileged caller.
  [[nodiscard]] std::shared_ptr<ChargedBytes> nothing_charged_for(const Caller& owner) const;

  Parts parts_;
  std::shared_ptr<SampleBudget> budget_;  // also that of samples that outlive the recorder
  CgroupTree cgroups_;
  std::size_t running_ = 0;
};

}  // namespace profd
