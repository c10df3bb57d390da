#include "collectors/jit/directory_watch.h"

#include <fcntl.h>
#include <sys/inotify.h>
#include <sys/ioctl.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cstring>
#include <iterator>
#include <utility>

#include "collectors/host/clock.h"
#include "collectors/host/mounts.h"

namespace profd {
namespace {

constexpr std::uint32_t kAppears = IN_CREATE | IN_MOVED_TO | IN_ONLYDIR;

// The kernel sets the time of a change before it queues the event.
constexpr std::int64_t kMaxEventDelayNs = 1'000'000'000;

bool is_at(int directory, const WatchedPlace& place) {
  struct stat status {};
  return ::fstat(directory, &status) == 0 && status.st_dev == place.device &&
         status.st_ino == place.inode;
}

bool is_unlinked(const JitFile& file) {
  struct statx status {};
  return stat_cached(file.fd->get(), STATX_NLINK, status) && status.stx_nlink == 0;
}

bool stat_unopened(int directory, const std::string& name, unsigned mask, struct statx& status) {
  constexpr int kFlags = AT_SYMLINK_NOFOLLOW | AT_NO_AUTOMOUNT | AT_STATX_DONT_SYNC;
  return ::statx(directory, name.c_str(), kFlags, mask, &status) == 0;
}

// An open costs more than to find the owner, which asks no file system that a user serves.
std::optional<std::uint32_t> owner_of(int directory, const std::string& name) {
  struct statx status {};
  if (!stat_unopened(directory, name, STATX_UID, status)) return std::nullopt;
  return status.stx_uid;
}

// The kernel's clock for the times of changes.
std::int64_t time_of_changes_ns() { return now_ns(CLOCK_REALTIME_COARSE); }

// Null: it cannot be read, or a user could make the reads hang.
DIR* open_listing(int directory) {
  if (mount_of(directory, 0).may_hang) return nullptr;
  UniqueFd fd(::openat(directory, ".", O_RDONLY | O_DIRECTORY | O_CLOEXEC));
  if (!fd.valid()) return nullptr;
  DIR* const listing = ::fdopendir(fd.get());
  if (listing != nullptr) (void)fd.release();
  return listing;
}

}  // namespace

bool is_seen_by(const ProcessKey& process, const WatchedPlace& place) {
  const std::string path = "/proc/" + std::to_string(process.tgid);
  const UniqueFd proc(::open(path.c_str(), O_PATH | O_DIRECTORY | O_CLOEXEC));
  if (!proc.valid()) return false;
  const std::pair<const char*, std::string> places[] = {
      {"root", "tmp"}, {"cwd", "."}, {"root", place.path}};
  return std::ranges::any_of(places, [&](const auto& seen_as) {
    const JitDirectory seen =
        open_directory_of(proc.get(), process.tgid, seen_as.first, seen_as.second);
    return seen.fd.valid() && is_at(seen.fd.get(), place);
  });
}

Result<std::unique_ptr<DirectoryWatch>> DirectoryWatch::open(
    const std::vector<std::string>& directories, Open open_file, UidOwners owners) {
  UniqueFd notify(::inotify_init1(IN_NONBLOCK | IN_CLOEXEC));
  if (!notify.valid()) return fail_errno("could not watch directories");
  std::unique_ptr<DirectoryWatch> watch(
      new DirectoryWatch(std::move(notify), std::move(open_file), std::move(owners)));
  watch->empty_ns_ = time_of_changes_ns();
  for (const std::string& path : directories) watch->add_directory(path);
  return watch;
}

void DirectoryWatch::add_directory(const std::string& path) {
  UniqueFd fd(::open(path.c_str(), O_PATH | O_DIRECTORY | O_CLOEXEC));
  if (!fd.valid() || directories_.size() >= kMaxDirectories) return;
  struct stat status {};
  const bool known = std::ranges::any_of(
      directories_, [&fd](const Directory& directory) { return is_at(fd.get(), directory.place); });
  if (known || ::fstat(fd.get(), &status) != 0) return;
  const std::string place = "/proc/self/fd/" + std::to_string(fd.get());
  const int watch = ::inotify_add_watch(notify_.get(), place.c_str(), kAppears);
  if (watch < 0) return;
  directories_.push_back({.watch = watch,
                          .place = {.path = path, .device = status.st_dev, .inode = status.st_ino},
                          .fd = std::move(fd)});
}

std::vector<JitFileSeen> DirectoryWatch::take(JitStats& stats) {
  std::vector<JitFileSeen> appeared;
  take_events(stats, appeared);
  scan(stats, appeared);
  return appeared;
}

void DirectoryWatch::take_events(JitStats& stats, std::vector<JitFileSeen>& appeared) {
  alignas(inotify_event) std::array<char, kMaxEventBytes> buffer;
  const ssize_t got = ::read(notify_.get(), buffer.data(), buffer.size());
  for (std::size_t at = 0; got > 0 && at < static_cast<std::size_t>(got);) {
    inotify_event event{};
    std::memcpy(&event, buffer.data() + at, sizeof event);
    const char* const text = buffer.data() + at + sizeof event;
    const std::string name(text, ::strnlen(text, event.len));
    at += sizeof event + event.len;
    if ((event.mask & IN_Q_OVERFLOW) != 0 && !lost_since_ns_) lost_since_ns_ = empty_ns_;
    const auto named = jit_file_name(name);
    const auto directory = std::ranges::find(directories_, event.wd, &Directory::watch);
    if (!named || directory == directories_.end()) continue;
    if (const auto file = hold(*directory, name, *named, stats)) appeared.push_back(*file);
  }
  const std::int64_t now = time_of_changes_ns();
  int waiting_bytes = 0;
  if (::ioctl(notify_.get(), FIONREAD, &waiting_bytes) == 0 && waiting_bytes == 0) empty_ns_ = now;
}

// Continues the scan, or begins one if events were lost. Those that are lost meanwhile get another.
void DirectoryWatch::scan(JitStats& stats, std::vector<JitFileSeen>& appeared) {
  if (!scan_ && lost_since_ns_) {
    scan_ = Scan{.since_ns = *lost_since_ns_ - kMaxEventDelayNs};
    lost_since_ns_.reset();
  }
  for (std::size_t scanned = 0; scan_ && scanned < kMaxScanned;) {
    if (scan_->directory == directories_.size()) {
      scan_.reset();
      return;
    }
    const Directory& directory = directories_[scan_->directory];
    if (!scan_->listing) scan_->listing.reset(open_listing(directory.fd.get()));
    const dirent* const entry = scan_->listing ? ::readdir(scan_->listing.get()) : nullptr;
    if (entry == nullptr) {
      scan_->listing.reset();
      ++scan_->directory;
      continue;
    }
    ++scanned;
    const std::string name = entry->d_name;
    const auto named = jit_file_name(name);
    if (!named || !may_be_lost(directory, name)) continue;
    if (const auto file = hold(directory, name, *named, stats)) appeared.push_back(*file);
  }
}

// False for files that were there before, and for those whose events came.
bool DirectoryWatch::may_be_lost(const Directory& directory, const std::string& name) const {
  struct statx status {};
  if (!stat_unopened(directory.fd.get(), name, STATX_INO | STATX_CTIME, status)) return false;
  if (nanoseconds_of(status.stx_ctime) < scan_->since_ns) return false;
  const std::uint64_t device = device_of(status);
  return std::ranges::none_of(held_, [&](const Held& held) {
    return held.file->id.device == device && held.file->id.inode == status.stx_ino;
  });
}

std::optional<JitFileSeen> DirectoryWatch::hold(const Directory& directory, const std::string& name,
                                                const NamedJitFile& named, JitStats& stats) {
  const auto user = owner_of(directory.fd.get(), name);
  const auto refusal = user ? refusal_of(*user) : JitRefusal::kNotPermitted;
  if (refusal) {
    stats.refuse(*refusal, user.value_or(UserRefusals::kUnknownUser));
    return std::nullopt;
  }
  JitOpening opening =
      open_file_(directory.fd.get(), name, {.kind = named.kind, .any_owner = true});
  if (opening.refusal) stats.refuse(*opening.refusal, *user);
  if (!opening.file) return std::nullopt;
  const std::uint32_t owner = opening.file->id.owner;
  make_room(owner);
  held_.push_back({.pid = named.pid,
                   .file = std::move(opening.file),
                   .place = directory.place,
                   .unlinked = {}});
  return JitFileSeen{.pid = named.pid, .owner = owner, .kind = named.kind};
}

std::optional<JitRefusal> DirectoryWatch::refusal_of(std::uint32_t owner) {
  const std::uint32_t payer = owners_.owner_of(owner);
  const auto now = Clock::now();
  if (now - second_began_ >= std::chrono::seconds(1)) {
    second_began_ = now;
    opened_in_second_.clear();
  }
  const std::size_t of_root = opened_in_second_[0];
  std::size_t of_users = 0;
  for (const auto& [uid, opened] : opened_in_second_) of_users += uid == 0 ? 0 : opened;
  if (payer != 0 && opened_in_second_[payer] >= kMaxOpensOfOwner) return JitRefusal::kOverShare;
  if (of_root + of_users >= kMaxOpens) return JitRefusal::kQueueFull;
  if (payer != 0 && of_users >= kMaxOpens / 2) return JitRefusal::kQueueFull;
  ++opened_in_second_[payer];
  return std::nullopt;
}

void DirectoryWatch::release_unlinked(Clock::time_point now) {
  std::erase_if(held_, [now](Held& held) {
    if (!held.unlinked && is_unlinked(*held.file)) held.unlinked = now;
    return held.unlinked && now - *held.unlinked >= kMaxUnlinked;
  });
}

void DirectoryWatch::make_room(std::uint32_t owner) {
  const std::uint32_t payer = owners_.owner_of(owner);
  const auto is_payers = [&](const Held& held) {
    return owners_.owner_of(held.file->id.owner) == payer;
  };
  const auto is_users = [](const Held& held) { return held.file->id.owner != 0; };
  const auto count = [this](const auto& is_counted) {
    return static_cast<std::size_t>(std::ranges::count_if(held_, is_counted));
  };
  if (payer != 0 && count(is_payers) >= kMaxHeldOfOwner) {
    held_.erase(std::ranges::find_if(held_, is_payers));
  } else if (payer != 0 && count(is_users) >= kMaxHeldOfUsers) {
    held_.erase(std::ranges::find_if(held_, is_users));
  } else if (held_.size() >= kMaxHeld) {
    held_.pop_front();
  }
}

std::vector<DirectoryWatch::Held> DirectoryWatch::find(std::uint32_t pid, std::uint32_t uid) const {
  std::vector<Held> found;
  std::ranges::copy_if(held_, std::back_inserter(found), [pid, uid](const Held& held) {
    const std::uint32_t owner = held.file->id.owner;
    return held.pid == pid && (owner == uid || (owner == 0 && !held.file->is_private));
  });
  return found;
}

}  // namespace profd
