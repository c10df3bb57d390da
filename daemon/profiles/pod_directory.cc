#include "daemon/profiles/pod_directory.h"

#include <algorithm>
#include <filesystem>
#include <system_error>

namespace profd {
namespace {

// A node has 110 pods by default, and some that ended.
constexpr std::size_t kMaxPods = 4096;
constexpr std::chrono::seconds kListedAgain{5};

// Of DNS names, which namespaces and pods have, and of UIDs.
bool is_dns_text(std::string_view text) {
  return !text.empty() && std::ranges::all_of(text, [](char c) {
    return (c >= 'a' && c <= 'z') || (c >= '0' && c <= '9') || c == '-' || c == '.';
  });
}

}  // namespace

std::optional<PodEntry> parse_pod_entry(std::string_view name) {
  const std::size_t first = name.find('_');
  const std::size_t last = name.rfind('_');
  if (first == last) return std::nullopt;  // also for neither
  const std::string_view space = name.substr(0, first);
  const std::string_view pod = name.substr(first + 1, last - first - 1);
  const std::string_view uid = name.substr(last + 1);
  if (!is_dns_text(space) || !is_dns_text(pod) || !is_dns_text(uid)) return std::nullopt;
  return PodEntry{.uid = std::string(uid), .pod = std::string(space) + "/" + std::string(pod)};
}

std::string PodDirectory::pod_of(const std::string& uid) {
  if (uid.empty()) return {};
  auto known = pods_.find(uid);
  const auto now = clock_();
  if (known == pods_.end() && (!listed_ || now - *listed_ >= kListedAgain)) {
    list();
    listed_ = now;
    known = pods_.find(uid);
  }
  return known == pods_.end() ? std::string() : known->second;
}

void PodDirectory::list() {
  std::map<std::string, std::string> found;
  std::error_code error;
  std::filesystem::directory_iterator entry(path_, error);
  for (std::size_t read = 0;
       !error && entry != std::filesystem::directory_iterator() && read < kMaxPods;
       ++read, entry.increment(error)) {
    auto pod = parse_pod_entry(entry->path().filename().native());
    if (pod) found.emplace(std::move(pod->uid), std::move(pod->pod));
  }
  if (pods_.size() + found.size() > 2 * kMaxPods) pods_.clear();
  pods_.merge(found);
}

}  // namespace profd
