#include "daemon/names/name_cache.h"

#include <numeric>

namespace profd {

NameTable& NameCache::names_of(const std::string& identity) {
  const auto [file, added] = files_.try_emplace(identity);
  if (added) {
    file->second.recency = recency_.insert(recency_.begin(), identity);
  } else {
    recency_.splice(recency_.begin(), recency_, file->second.recency);
  }
  return file->second.names;
}

void NameCache::mark_stale() {
  for (auto& [identity, file] : files_) file.names.mark_stale();
}

void NameCache::trim() {
  for (std::size_t used = bytes(); used > max_bytes_ && !recency_.empty();) {
    const auto oldest = files_.find(recency_.back());
    used -= oldest->second.names.bytes();
    files_.erase(oldest);
    recency_.pop_back();
  }
}

std::size_t NameCache::bytes() const {
  return std::accumulate(
      files_.begin(), files_.end(), std::size_t{0},
      [](std::size_t sum, const auto& entry) { return sum + entry.second.names.bytes(); });
}

}  // namespace profd
