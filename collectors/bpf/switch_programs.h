// The BPF programs of threads that are off their CPU (bpf/switch.bpf.c), in an object of their own:
// it is loaded while a session needs it, and costs nothing else.
//
// It shares the filter, the unwind tables and the rings of the sampling programs, and has its own
// counters and credits. With it go the storages of all threads.

#pragma once

#include <cstdint>
#include <memory>
#include <string>

#include "bpf/block_abi.h"
#include "collectors/bpf/programs.h"
#include "formats/base/result.h"
#include "formats/base/unique_fd.h"

struct bpf_object;

namespace profd {

// Movable. Destroyed, it frees all programs and maps that are its own, which may wait as load() may
// (kernel_calls.h). All functions may be called on any thread.
class SwitchPrograms {
 public:
  // Loads and verifies them, in 0.1 to 0.5 s: on the thread of KernelCalls. They read interpreted
  // frames where the sampling programs do, unless the verifier refuses that. Errors: kUnsupported
  // with the verifier's reason.
  static Result<SwitchPrograms> load(const Programs& shared);

  // The programs learn which PID namespace is profd's. To be called before they are attached.
  [[nodiscard]] Result<void> learn_identity() const;

  // Until the descriptor is closed.
  [[nodiscard]] Result<UniqueFd> attach_tracepoint(const char* name) const;

  // Makes storages for the threads of all targets of sessions of blocks. Returns how many are new,
  // with those of threads that were forked meanwhile.
  [[nodiscard]] Result<std::uint64_t> watch_threads() const;

  // A profd_whole_block for each thread that is in a block: parse_open_blocks() (record.h).
  [[nodiscard]] Result<std::string> list_open_blocks() const;

  // The sums over all CPUs.
  [[nodiscard]] Result<profd_counters> counters() const;
  [[nodiscard]] Result<profd_switch_counters> block_counters() const;

  // Shared with the programs.
  [[nodiscard]] profd_block_rate& rate() const { return *rate_; }

 private:
  struct Close {
    void operator()(bpf_object* object) const noexcept;
  };
  struct Unmap {
    void operator()(profd_block_rate* rate) const noexcept;
  };

  SwitchPrograms() = default;
  [[nodiscard]] Result<int> map(const char* name) const;
  [[nodiscard]] Result<int> program(const char* name) const;
  [[nodiscard]] Result<std::string> read(const char* iterator, std::uint32_t only_tid) const;
  Result<void> load_object(const Programs& shared, bool with_interpreters);
  Result<void> reuse_maps(const Programs& shared);
  Result<void> reuse_map(const Programs& shared, const char* name);
  Result<void> map_rate();

  std::unique_ptr<bpf_object, Close> object_;
  std::unique_ptr<profd_block_rate, Unmap> rate_;
};

}  // namespace profd
