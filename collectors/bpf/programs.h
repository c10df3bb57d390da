// The BPF programs in the kernel, and what they share with user space: maps and one ring buffer per
// CPU.
//
// Programs and maps are found by name, so that a test can load a variant of the object. The kernel
// frees them once their last descriptor is closed. Owned by the io thread.

#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "bpf/profd_abi.h"
#include "collectors/bpf/bpf_function.h"
#include "collectors/bpf/grace_periods.h"
#include "collectors/bpf/kernel_calls.h"
#include "formats/base/result.h"
#include "formats/base/unique_fd.h"

struct bpf_object;

namespace profd {

// What the programs hash with. Two objects whose ids are compared need the same one.
using HashKey = std::array<std::uint64_t, 2>;

// Writes the key into the read-only data of an object that is not loaded yet, which begins with it.
[[nodiscard]] Result<void> set_hash_key(bpf_object* object, const HashKey& key);

// Whether the programs of an object that is not loaded yet are to read interpreted frames. Where
// not, the verifier sees no such code. False: the object has none.
bool set_interpreters(bpf_object* object, bool with_interpreters);

class Programs {
 public:
  // Loads and verifies the programs. `object` is the ELF image, borrowed for the call. `ring_bytes`
  // is a power of two and at least a page. Where the verifier refuses them, they are loaded without
  // what reads interpreted frames.
  static Result<Programs> load(std::span<const std::byte> object, std::size_t ring_bytes);

  // The ELF image that is built into profd.
  static std::span<const std::byte> built_in();

  // *this owns the descriptors. An error where the object has no such name, as a test's variant
  // may.
  [[nodiscard]] Result<int> map(const char* name) const;
  [[nodiscard]] Result<int> program(const char* name) const;

  // False: stacks have native frames only, as the verifier refused more.
  [[nodiscard]] bool has_interpreters() const { return has_interpreters_; }

  // Drawn at each load.
  [[nodiscard]] const HashKey& hash_key() const { return hash_key_; }

  // One ring for each possible CPU.
  [[nodiscard]] const std::vector<UniqueFd>& rings() const { return rings_; }

  // Attaches a program to its raw tracepoint or function, until the descriptor is closed. Both may
  // wait (kernel_calls.h). Any thread.
  [[nodiscard]] Result<UniqueFd> attach_tracepoint(const char* name) const;

  // Every process that profd's PID namespace shows; only one where `only_tgid` is not 0. A list of
  // all takes as long as the host has threads (kernel_calls.h). Any thread.
  [[nodiscard]] Result<std::vector<profd_task>> list_tasks(std::uint32_t only_tgid) const;

  // The executable file mappings of every process that profd's PID namespace shows.
  [[nodiscard]] Result<std::vector<profd_running_code>> list_running_code() const;

  // The functions of all BPF programs that are loaded, by address.
  [[nodiscard]] Result<std::vector<BpfFunction>> list_bpf_functions() const;

  // The ends of runs of programs: what was removed before a grace period began is used by none
  // after it.
  [[nodiscard]] GracePeriods& grace_periods() const { return *grace_periods_; }

  [[nodiscard]] KernelCalls& kernel_calls() const { return *kernel_calls_; }

 private:
  struct Close {
    void operator()(bpf_object* object) const noexcept;
  };

  Programs() = default;
  Result<void> load_object(std::span<const std::byte> object, bool with_interpreters);
  Result<void> make_rings(std::size_t ring_bytes);
  [[nodiscard]] Result<std::string> read(const char* iterator, std::uint32_t only_tgid) const;

  HashKey hash_key_{};
  bool has_interpreters_ = false;
  std::unique_ptr<bpf_object, Close> object_;
  std::vector<UniqueFd> rings_;
  std::unique_ptr<GracePeriods> grace_periods_;  // uses the maps and rings
  std::unique_ptr<KernelCalls> kernel_calls_ = std::make_unique<KernelCalls>();  // the same
};

}  // namespace profd
