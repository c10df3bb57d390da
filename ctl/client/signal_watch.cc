#include "ctl/client/signal_watch.h"

#include <poll.h>
#include <sys/signalfd.h>
#include <unistd.h>

#include <stdexcept>

namespace profd {

SignalWatch::SignalWatch(std::initializer_list<int> signals) {
  sigset_t set;
  ::sigemptyset(&set);
  for (const int signal : signals) ::sigaddset(&set, signal);
  ::pthread_sigmask(SIG_BLOCK, &set, &former_mask_);
  fd_.reset(::signalfd(-1, &set, SFD_CLOEXEC | SFD_NONBLOCK));
  if (!fd_.valid()) throw std::runtime_error("could not make a signalfd");
}

SignalWatch::~SignalWatch() {
  while (wait(std::chrono::milliseconds(0))) {
  }
  ::pthread_sigmask(SIG_SETMASK, &former_mask_, nullptr);
}

std::optional<SignalWatch::Arrival> SignalWatch::wait(std::chrono::milliseconds limit) {
  pollfd ready{.fd = fd_.get(), .events = POLLIN, .revents = 0};
  if (::poll(&ready, 1, static_cast<int>(limit.count())) != 1) return std::nullopt;
  signalfd_siginfo info{};
  if (::read(fd_.get(), &info, sizeof(info)) != sizeof(info)) return std::nullopt;
  return Arrival{static_cast<int>(info.ssi_signo), info.ssi_code == SI_KERNEL};
}

}  // namespace profd
