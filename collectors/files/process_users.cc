#include "collectors/files/process_users.h"

#include <signal.h>

#include <algorithm>
#include <cerrno>
#include <map>
#include <utility>

namespace profd {

bool is_gone(const ProcessKey& process) {
  return ::kill(static_cast<pid_t>(process.tgid), 0) != 0 && errno == ESRCH;
}

void ProcessUsers::add(const ProcessKey& process, std::uint32_t uid, std::uint32_t payer,
                       Clock::time_point now) {
  if (now - checked_at_ >= kEndedStay) {
    forget_ended();
    checked_at_ = now;
  }
  if (processes_->size() >= kMaxProcesses && !processes_->contains(process.tgid)) make_room();
  processes_->insert_or_assign(process.tgid, User{.process = process, .uid = uid, .payer = payer});
}

std::optional<std::uint32_t> ProcessUsers::uid_of(const ProcessKey& process) const {
  const auto known = processes_->find(process.tgid);
  if (known == processes_->end() || known->second.process != process) return std::nullopt;
  return known->second.uid;
}

void ProcessUsers::forget_ended() {
  processes_.erase_if([this](const auto& entry) { return is_gone_(entry.second.process); });
}

// Leaves room for a quarter, so that it is rarely called: root keeps half, all users a quarter.
void ProcessUsers::make_room() {
  forget_ended();
  std::map<std::uint32_t, std::size_t> count_of;
  for (const auto& [tgid, user] : *processes_) ++count_of[user.payer];
  const std::size_t of_root = std::exchange(count_of[0], 0);
  while (processes_->size() - of_root > kMaxProcesses / 4) {
    const auto most =
        std::ranges::max_element(count_of, {}, [](const auto& counted) { return counted.second; });
    forget(most->first);
    count_of.erase(most);
  }
  if (of_root > kMaxProcesses / 2) forget(0);
}

void ProcessUsers::forget(std::uint32_t payer) {
  processes_.erase_if([payer](const auto& entry) { return entry.second.payer == payer; });
}

}  // namespace profd
