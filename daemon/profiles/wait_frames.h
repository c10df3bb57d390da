// What the kernel frames of a block say: where the thread left its CPU, and what it waited for.
//
// The innermost frames of all blocks are the same: the program that took the stack, the tracepoint
// and the scheduler. They are cut by name, since their number depends on the kernel. Behind them,
// the first function that says what the thread waits for decides, or a page fault anywhere. The
// kernel's own list of a sleeping thread's frames lacks the scheduler and the sleeping locks
// (__sched in its sources), so a block without a user stack never waits for a lock.
//
// Used on a worker.

#pragma once

#include <cstdint>
#include <functional>
#include <span>
#include <string_view>
#include <utility>

#include <boost/unordered/unordered_flat_map.hpp>

#include "collectors/bpf/bpf_function.h"
#include "daemon/names/kernel_names.h"
#include "daemon/samples/stack_table.h"
#include "formats/profile/block_names.h"

namespace profd {

// Whether samples of the stack are blocks, and no ticks. All kernel frames of a block are return
// addresses, since the innermost one called the scheduler.
[[nodiscard]] bool is_of_blocks(const StackTable::Stack& stack);

class WaitFrames {
 public:
  // The kernel function at the address of a code byte. Empty: it is not known.
  using NameOf = std::function<std::string_view(std::uint64_t address)>;

  explicit WaitFrames(NameOf name_of) : name_of_(std::move(name_of)) {}
  // By the names of find_kernel_function(). Both must outlive the result.
  static WaitFrames by(KernelNames& names, std::span<const BpfFunction> loaded);

  // The kernel frames of a block, leaf first, without those of the scheduler and above it.
  [[nodiscard]] std::span<const std::uint64_t> behind_scheduler(
      std::span<const std::uint64_t> kernel_frames);

  // `frames` are those behind the scheduler, `state` is a profd_block_state.
  [[nodiscard]] Wait wait_of(unsigned state, std::span<const std::uint64_t> frames);

 private:
  enum class Role : std::uint8_t { kOther, kTracing, kScheduler };
  // Of a function.
  struct Meaning {
    Role role = Role::kOther;
    Wait wait = Wait::kOther;  // kOther: the next frame decides
    bool is_page_fault = false;
  };

  [[nodiscard]] static Meaning meaning_of(std::string_view name);
  [[nodiscard]] Meaning meaning_at(std::uint64_t return_address);

  NameOf name_of_;
  boost::unordered_flat_map<std::uint64_t, Meaning> meanings_;  // by return address
};

}  // namespace profd
