// Signals as something to wait for and to ask about, instead of something that strikes.
//
// Blocks them for the calling thread as long as the object lives; then the thread's mask is as
// before, and those that nobody asked for are dropped.

#pragma once

#include <signal.h>

#include <chrono>
#include <initializer_list>
#include <optional>

#include "formats/base/unique_fd.h"

namespace profd {

class SignalWatch {
 public:
  struct Arrival {
    int signal;
    // A terminal sends to every process in its foreground; anyone else (kill) to one.
    bool from_terminal;
  };

  explicit SignalWatch(std::initializer_list<int> signals);
  SignalWatch(const SignalWatch&) = delete;
  SignalWatch& operator=(const SignalWatch&) = delete;
  ~SignalWatch();

  // The next signal; nothing when none comes within `limit`.
  std::optional<Arrival> wait(std::chrono::milliseconds limit);

  // The mask that was in force before, for a child to go on with.
  [[nodiscard]] const sigset_t& former_mask() const { return former_mask_; }

 private:
  sigset_t former_mask_{};
  UniqueFd fd_;
};

}  // namespace profd
