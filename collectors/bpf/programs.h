// The BPF programs in the kernel, and what they share with us: maps and one ring buffer per CPU.
//
// Everything is found by name, so that a test can load a variant of the object. Freed with it: the
// kernel drops programs and maps once their last descriptor is closed. Owned by the io thread.

#pragma once

#include <cstddef>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "bpf/profd_abi.h"
#include "formats/base/result.h"
#include "formats/base/unique_fd.h"

struct bpf_object;

namespace profd {

class Programs {
 public:
  // Loads and verifies. `object` is the ELF image, borrowed for the call; ring_bytes a power of
  // two, at least a page.
  static Result<Programs> load(std::span<const std::byte> object, std::size_t ring_bytes);

  // The object that is built in.
  static std::span<const std::byte> built_in();

  // Descriptors stay ours. A name that the object lacks is an error, since it may be a test's.
  [[nodiscard]] Result<int> map(const char* name) const;
  [[nodiscard]] Result<int> program(const char* name) const;

  // One for each possible CPU.
  [[nodiscard]] const std::vector<UniqueFd>& rings() const { return rings_; }

  // Attaches a program to the raw tracepoint or function it was written for; detached when the
  // descriptor is closed.
  [[nodiscard]] Result<UniqueFd> attach_tracepoint(const char* name) const;

  // Every process that our PID namespace shows. `only_tgid` limits it to one; 0 is all.
  [[nodiscard]] Result<std::vector<profd_task>> list_tasks(std::uint32_t only_tgid) const;

  // What code runs from which files now, in every process that our PID namespace shows.
  [[nodiscard]] Result<std::vector<profd_running_code>> list_running_code() const;

  // Returns once every program run that began before the call is over, on all CPUs: what they read
  // is then no longer in use, and what they counted can be read.
  void wait_for_running_programs() const;

 private:
  struct Close {
    void operator()(bpf_object* object) const noexcept;
  };

  Programs() = default;
  Result<void> make_rings(std::size_t ring_bytes);
  [[nodiscard]] Result<std::string> read_iterator(const char* name, std::uint32_t only_tgid) const;

  std::unique_ptr<bpf_object, Close> object_;
  std::vector<UniqueFd> rings_;
};

}  // namespace profd
