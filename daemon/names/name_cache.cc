#include "daemon/names/name_cache.h"

#include <numeric>

namespace profd {
namespace {

constexpr std::size_t kBytesOfNode = 64;  // of a map or list, with what malloc() keeps of it

}  // namespace

std::size_t NameCache::File::bytes() const {
  const std::size_t bytes_of_identity = sizeof(std::string) + recency->capacity();
  return names.bytes() + sizeof *this - sizeof names + 2 * (bytes_of_identity + kBytesOfNode);
}

NameTable& NameCache::names_of(const std::string& identity, Clock::time_point now) {
  const auto [file, added] = files_.try_emplace(identity);
  if (added) {
    file->second.recency = recency_.insert(recency_.begin(), identity);
  } else {
    recency_.splice(recency_.begin(), recency_, file->second.recency);
  }
  file->second.used_at = now;
  return file->second.names;
}

void NameCache::mark_stale() {
  for (auto& [identity, file] : files_) file.names.mark_stale();
}

void NameCache::add_payer(const std::string& identity, std::uint32_t payer) {
  const auto known = files_.find(identity);
  if (known == files_.end()) return;
  File& file = known->second;
  if (payer == kRoot) {
    file.payer = kRoot;
  } else if (file.payer && *file.payer != kRoot && *file.payer != payer) {
    file.payer.reset();
    file.is_of_several = true;
  } else if (!file.payer && !file.is_of_several) {
    file.payer = payer;
  }
}

void NameCache::Usage::add(const File& file) {
  const std::size_t bytes = file.bytes();
  all += bytes;
  if (file.payer == kRoot) return;
  users += bytes;
  if (file.payer) by_user[*file.payer] += bytes;
}

void NameCache::Usage::remove(const File& file) {
  const std::size_t bytes = file.bytes();
  all -= bytes;
  if (file.payer == kRoot) return;
  users -= bytes;
  if (file.payer) by_user[*file.payer] -= bytes;
}

void NameCache::trim(Clock::time_point now) {
  drop_unused(now);
  Usage used;
  for (const auto& [identity, file] : files_) used.add(file);
  const std::size_t of_one_user = max_bytes_ / 8;
  const std::size_t of_users = max_bytes_ / 2;
  drop(used, [&](const File& file) {
    return file.payer && *file.payer != kRoot && used.by_user[*file.payer] > of_one_user;
  });
  drop(used, [&](const File& file) { return file.payer != kRoot && used.users > of_users; });
  drop(used, [](const File&) { return true; });
}

void NameCache::drop(Usage& used, const std::function<bool(const File&)>& is_dropped) {
  for (auto place = recency_.end(); place != recency_.begin() && used.all > max_bytes_;) {
    const auto file = files_.find(*--place);
    if (!is_dropped(file->second)) continue;
    used.remove(file->second);
    files_.erase(file);
    place = recency_.erase(place);
  }
}

void NameCache::drop_unused(Clock::time_point now) {
  std::size_t unused_of_users = 0;
  std::size_t unused_of_root = 0;
  for (auto place = recency_.begin(); place != recency_.end();) {
    const auto entry = files_.find(*place);
    const File& file = entry->second;
    const bool is_of_users = file.payer ? *file.payer != kRoot : file.is_of_several;
    const bool is_unused = now - file.used_at > kUnused;
    std::size_t& unused = is_of_users ? unused_of_users : unused_of_root;
    if (is_unused) unused += file.bytes();
    if (is_unused && unused > max_bytes_ / (is_of_users ? kUnusedPart : kUnusedPartOfRoot)) {
      files_.erase(entry);
      place = recency_.erase(place);
    } else {
      ++place;
    }
  }
}

std::size_t NameCache::bytes() const {
  return std::accumulate(
      files_.begin(), files_.end(), std::size_t{0},
      [](std::size_t sum, const auto& entry) { return sum + entry.second.bytes(); });
}

}  // namespace profd
