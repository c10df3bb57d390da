// The users of sampled processes, as the sampler reports them, until their processes need them. By
// pid: a program that replaces another one takes its place. Not thread-safe.
//
// Bounded, so that no user's flood of processes takes another's: where there are too many, those
// that have ended go, and then those of the users with the most.

#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <map>
#include <memory_resource>
#include <optional>
#include <utility>

#include "collectors/bpf/sample.h"

namespace profd {

// Whether no process has its pid.
[[nodiscard]] bool is_gone(const ProcessKey& process);

class ProcessUsers {
 public:
  static constexpr std::size_t kMaxProcesses = 16'384;

  using IsGone = std::function<bool(const ProcessKey&)>;
  explicit ProcessUsers(IsGone is_gone = profd::is_gone) : is_gone_(std::move(is_gone)) {}

  // `payer` is the user whose uid it is (UidOwners).
  void add(const ProcessKey& process, std::uint32_t uid, std::uint32_t payer);

  // None for an unknown process.
  [[nodiscard]] std::optional<std::uint32_t> uid_of(const ProcessKey& process) const;

  [[nodiscard]] std::size_t size() const { return processes_.size(); }

 private:
  struct User {
    ProcessKey process;
    std::uint32_t uid;
    std::uint32_t payer;
  };

  void make_room();
  void forget(std::uint32_t payer);

  IsGone is_gone_;
  // Apart from other memory: entries that stay after a flood of processes would keep its pages.
  std::pmr::unsynchronized_pool_resource memory_;
  std::pmr::map<std::uint32_t, User> processes_{&memory_};  // by tgid
};

}  // namespace profd
