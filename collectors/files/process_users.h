// The users of sampled processes, as the sampler reports them, until their processes need them. By
// pid: a program that replaces another one takes its place. Not thread-safe.
//
// Bounded, so that no user's flood of processes takes another's: those that have ended go each
// minute and where there are too many, and then those of the users with the most.

#pragma once

#include <chrono>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <optional>
#include <utility>

#include "collectors/bpf/sample.h"
#include "formats/base/pool_map.h"

namespace profd {

// Whether no process has its pid.
[[nodiscard]] bool is_gone(const ProcessKey& process);

class ProcessUsers {
 public:
  using Clock = std::chrono::steady_clock;

  static constexpr std::size_t kMaxProcesses = 16'384;
  static constexpr std::chrono::minutes kEndedStay{1};  // until the next one is added

  using IsGone = std::function<bool(const ProcessKey&)>;
  explicit ProcessUsers(IsGone is_gone = profd::is_gone) : is_gone_(std::move(is_gone)) {}

  // `payer` is the user whose uid it is (UidOwners).
  void add(const ProcessKey& process, std::uint32_t uid, std::uint32_t payer,
           Clock::time_point now = Clock::now());

  // None for an unknown process.
  [[nodiscard]] std::optional<std::uint32_t> uid_of(const ProcessKey& process) const;

  [[nodiscard]] std::size_t size() const { return processes_->size(); }

 private:
  struct User {
    ProcessKey process;
    std::uint32_t uid;
    std::uint32_t payer;
  };

  void forget_ended();
  void make_room();
  void forget(std::uint32_t payer);

  IsGone is_gone_;
  PoolMap<std::uint32_t, User> processes_;  // by tgid
  Clock::time_point checked_at_ = Clock::now();
};

}  // namespace profd
