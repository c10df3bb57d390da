// The executable mappings of processes, from their mapping records, for deferred stacks, whose
// process may have exited.
//
// Limited: where there are too many, the user with the most loses those of the process that has had
// no new mapping for the longest time; root does where users other than root have less than half.
// Those of a process that has ended are forgotten a minute later, since stacks of it may wait for a
// table.
// Owned by the io thread.

#pragma once

#include <chrono>
#include <cstdint>
#include <list>
#include <map>
#include <utility>

#include "collectors/bpf/sample.h"
#include "collectors/files/process_users.h"

namespace profd {

// The key of the table of the vDSO.
[[nodiscard]] FileKey vdso_key();

// The key of the table of a process's JIT code, and the offset of an address in it.
struct JitCodeLocation {
  FileKey key;
  std::uint64_t offset = 0;
};
[[nodiscard]] JitCodeLocation jit_code_location(const ProcessKey& process, std::uint64_t address);

class ProcessMappings {
 public:
  static constexpr std::size_t kMaxMappings = 16'384;  // 3 MB; a busy host reaches any limit
  static constexpr std::size_t kMaxMappingsOfProcess = 4096;
  static constexpr std::chrono::seconds kKeptEnded{60};

  explicit ProcessMappings(ProcessUsers::IsGone is_gone = profd::is_gone)
      : is_gone_(std::move(is_gone)) {}

  // Replaces older mappings that overlap it. `user` is the one whose process it is (uid_owners.h).
  void add(const CodeMapping& mapping, std::uint32_t user);

  // The file of the vDSO is vdso_key(). Valid until the next add() or tick().
  [[nodiscard]] const CodeMapping* find(const ProcessKey& process, std::uint64_t address) const;

  // Forgets processes that have ended. To be called often; every kTick, it checks some of them.
  void tick(std::uint64_t now_ns);
  static constexpr std::chrono::milliseconds kTick{100};
  static constexpr std::size_t kProcessesOfTick = 128;

  [[nodiscard]] std::size_t size() const { return size_; }

 private:
  struct Process {
    std::map<std::uint64_t, CodeMapping> mappings;  // by start
    std::list<ProcessKey>::iterator recency;
    std::uint32_t user = 0;
    std::uint64_t ended_ns = 0;  // when it was first seen to have ended; 0: it has not
  };
  using Processes = std::map<ProcessKey, Process>;
  struct User {
    std::list<ProcessKey> recency;  // the most recent first
    std::size_t mappings = 0;
  };
  Process& touch(const ProcessKey& key, std::uint32_t user);
  bool remove_overlapped(Process& process, const CodeMapping& mapping);
  void forget_one();
  Processes::iterator forget(Processes::iterator process);

  ProcessUsers::IsGone is_gone_;
  Processes processes_;
  std::map<std::uint32_t, User> users_;
  std::size_t size_ = 0;
  ProcessKey scanned_{};  // the last one that tick() scanned
  std::uint64_t next_tick_ns_ = 0;
};

}  // namespace profd
