#include "collectors/host/uid_owners.h"

#include <sys/stat.h>

#include <algorithm>
#include <functional>
#include <map>
#include <utility>

#include "formats/base/whole_file.h"
#include "formats/proc/passwd.h"

namespace profd {
namespace {

// Far above what hosts have: a line takes 30 bytes in /etc/subuid, 80 in /etc/passwd.
constexpr std::size_t kMaxFileBytes = std::size_t{4} << 20;

}  // namespace

UidOwners::UidOwners(std::string subuid, std::string passwd,
                     std::chrono::steady_clock::duration interval)
    : subuid_(std::move(subuid)), passwd_(std::move(passwd)), interval_(interval) {}

uid_t UidOwners::owner_of(uid_t uid) {
  read_if_changed();
  const auto range = std::ranges::find_if(ranges_, [uid](const SubordinateRange& one) {
    return uid >= one.first && uid - one.first < one.count;
  });
  constexpr uid_t kRoot = 0;
  return range == ranges_.end() || range->owner == kRoot ? uid : range->owner;
}

UidOwners::Stamp UidOwners::stamp_of(const std::string& path) {
  constexpr std::int64_t kNsOfSecond = 1'000'000'000;
  struct stat status {};
  if (::stat(path.c_str(), &status) != 0) return {};
  return {.changed_ns = status.st_ctim.tv_sec * kNsOfSecond + status.st_ctim.tv_nsec,
          .inode = status.st_ino,
          .bytes = status.st_size};
}

void UidOwners::read_if_changed() {
  const auto now = std::chrono::steady_clock::now();
  if (now < next_check_) return;
  next_check_ = now + interval_;
  const Stamp subuid = stamp_of(subuid_);
  const Stamp passwd = stamp_of(passwd_);
  if (subuid == subuid_stamp_ && passwd == passwd_stamp_) return;
  subuid_stamp_ = subuid;
  passwd_stamp_ = passwd;
  std::map<std::string, std::uint32_t, std::less<>> uids;
  if (const auto text = read_whole_file(passwd_, AT_FDCWD, kMaxFileBytes)) {
    for (auto& [uid, name] : parse_user_names(*text)) uids.emplace(name, uid);
  }
  const auto text = read_whole_file(subuid_, AT_FDCWD, kMaxFileBytes);
  ranges_ = parse_subordinate_uids(text ? *text : std::string(), uids);
}

}  // namespace profd
