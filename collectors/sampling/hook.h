// BPF programs that the kernel runs only while a session needs them, at each fork or each munmap of
// the host: attached at the first need, and detached a minute after the last one.
//
// No call of this class waits: the thread of KernelCalls attaches and detaches. Users can make the
// need come and go many times a second, and the minute makes that cost nothing. Owned by the io
// thread.

#pragma once

#include <chrono>
#include <functional>
#include <future>
#include <vector>

#include "collectors/bpf/kernel_calls.h"
#include "collectors/bpf/programs.h"
#include "formats/base/result.h"
#include "formats/base/unique_fd.h"

namespace profd {

class Hook {
 public:
  using Clock = std::chrono::steady_clock;
  using Links = std::vector<UniqueFd>;  // the programs are attached until these are closed

  static constexpr std::chrono::seconds kKept{60};

  // `attach` is called on the thread. `calls`, and what `attach` refers to, must outlive *this and
  // the thread.
  Hook(KernelCalls& calls, std::function<Result<Links>()> attach)
      : calls_(&calls), attach_(std::move(attach)) {}

  // Of these programs, by their names in the BPF object.
  Hook(const Programs& programs, std::vector<const char*> names);

  // From now on the programs are needed. False: they are not attached yet; ask again. After an
  // error the next call tries again.
  [[nodiscard]] Result<bool> need();
  void release(Clock::time_point now);

  // To be called every second or so.
  void detach_if_unneeded(Clock::time_point now);

 private:
  Result<bool> take_attached();

  KernelCalls* calls_;
  std::function<Result<Links>()> attach_;
  std::future<Result<Links>> attaching_;
  Links links_;
  bool is_needed_ = false;
  Clock::time_point released_{};
};

}  // namespace profd
