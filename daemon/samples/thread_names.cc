#include "daemon/samples/thread_names.h"

#include "daemon/samples/hash_seed.h"

namespace profd {
namespace {

constexpr std::string_view kDigits = "0123456789";

}  // namespace

std::string folded_thread_name(std::string_view thread) {
  const std::size_t last = thread.find_last_not_of(kDigits);
  const std::size_t kept = last == std::string_view::npos ? 0 : last + 1;
  if (kept == thread.size()) return std::string(thread);
  return std::string(thread.substr(0, kept)) + "#";
}

ThreadNames::ThreadNames() : names_(daemon_hash_seed()) { (void)names_.add("[other threads]"); }

std::optional<std::uint32_t> ThreadNames::add(std::string_view thread, std::string_view comm,
                                              std::uint32_t payer) {
  const std::string name = thread == comm ? std::string(thread) : folded_thread_name(thread);
  if (const auto known = names_.find(name)) return known;
  if (!has_room(payer)) return std::nullopt;
  if (payer != 0) {
    ++names_of_user_[payer];
    ++names_of_users_;
  }
  return names_.add(name);
}

bool ThreadNames::has_room(std::uint32_t payer) const {
  if (names_.size() >= kMaxNames) return false;
  if (payer == 0) return true;
  const auto own = names_of_user_.find(payer);
  return names_of_users_ < kMaxNamesOfUsers &&
         (own == names_of_user_.end() || own->second < kMaxNamesOfUser);
}

}  // namespace profd
