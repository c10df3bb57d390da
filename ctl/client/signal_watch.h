// Signals to wait for, instead of handlers that interrupt the program.
//
// Blocks the signals for the calling thread while the object lives. The destructor discards those
// that are pending and restores the signal mask of the thread.

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
    // A terminal sends a signal to every process of its foreground group; kill(2) to one.
    bool from_terminal;
  };

  explicit SignalWatch(std::initializer_list<int> signals);
  SignalWatch(const SignalWatch&) = delete;
  SignalWatch& operator=(const SignalWatch&) = delete;
  ~SignalWatch();

  // The next signal, or nothing after `limit`.
  std::optional<Arrival> wait(std::chrono::milliseconds limit);

  // Readable when a signal has arrived.
  [[nodiscard]] int fd() const { return fd_.get(); }

  // The mask before this object, for a child process.
  [[nodiscard]] const sigset_t& former_mask() const { return former_mask_; }

 private:
  sigset_t former_mask_{};
  UniqueFd fd_;
};

}  // namespace profd
