#include "daemon/samples/thread_names.h"

#include <optional>

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

std::uint32_t ThreadNames::add(std::string_view thread, std::string_view comm) {
  const std::string name = thread == comm ? std::string(thread) : folded_thread_name(thread);
  if (names_.size() < kMaxNames) return names_.add(name);
  return names_.find(name).value_or(kOther);
}

}  // namespace profd
