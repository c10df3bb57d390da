#include "collectors/files/mapped_files.h"

#include <sys/resource.h>

#include <utility>

namespace profd {
namespace {

constexpr std::chrono::seconds kRetryInterval{1};
// Divisors of the descriptor limit.
constexpr std::size_t kShareOfAll = 2;
constexpr std::size_t kShareOfUsers = 4;
constexpr std::size_t kShareOfOwner = 16;
// Of a file over a limit: such files are not counted, and each mapping has its own.
constexpr std::size_t kMaxUncountedPath = 128;

// Over a limit that others may soon use less of.
std::size_t count_of(const std::string& path) { return 1 + path.size() / MappedFiles::kPathBytes; }

std::shared_ptr<const MappedFile> unopened_of(const MappingView& mapping, const char* why) {
  MappedFile file = unopened(place_of(mapping), why);
  // An assignment would keep the memory of the long path.
  if (file.path.size() > kMaxUncountedPath) std::string("?").swap(file.path);
  file.may_open_later = true;
  return std::make_shared<const MappedFile>(std::move(file));
}

}  // namespace

MappedFiles::MappedFiles(std::size_t descriptor_limit, FileOpener::Open open)
    : opener_(std::move(open)), descriptor_limit_(descriptor_limit) {}

std::size_t MappedFiles::soft_descriptor_limit() {
  rlimit limit{};
  return ::getrlimit(RLIMIT_NOFILE, &limit) == 0 ? limit.rlim_cur : 0;
}

std::shared_ptr<const MappedFile> MappedFiles::find_or_open(const MappingView& mapping,
                                                            Clock::time_point now) {
  if (mapping.file.empty()) return nullptr;
  const auto found = files_.find(mapping.file);
  if (found != files_.end()) {
    // The open of a file without a descriptor is tried again: another process may still map it.
    const Entry& entry = found->second;
    if (entry.file->fd.valid() || entry.file->is_opening ||
        now - entry.opened_at < kRetryInterval) {
      return entry.file;
    }
  }
  const std::uint32_t uid = user_of(mapping.process);
  if (!may_open(mapping.process.tgid, uid, now)) {
    return unopened_of(mapping, "too many new files within a second");
  }
  MappingPlace place = place_of(mapping);
  MappedFile opening = unopened(place, "it is being opened");
  if (found == files_.end() && !has_room_for(uid, count_of(opening.path))) {
    return unopened_of(mapping, "too many files are known");
  }
  opening.is_opening = true;
  if (!opener_.submit(uid, std::move(place))) {
    return unopened_of(mapping, "too many files wait to be opened");
  }
  ++submitted_;
  count_open(mapping.process.tgid, uid);
  auto shared = std::make_shared<const MappedFile>(std::move(opening));
  const bool is_new = found == files_.end();
  Entry& entry = is_new ? files_[mapping.file] : found->second;
  entry.file = shared;
  entry.opened_at = now;
  if (is_new) entry.uid = uid;
  count(entry, count_of(shared->path));
  return shared;
}

std::vector<std::shared_ptr<const MappedFile>> MappedFiles::take_opened() {
  std::vector<std::shared_ptr<const MappedFile>> files;
  for (MappedFile& file : opener_.take()) {
    ++ended_;
    const auto known = files_.find(file.key);
    if (known == files_.end()) {
      closer_.close(std::move(file.fd));
      continue;
    }
    if (file.fd.valid()) charge_descriptor(file, known->second);
    count(known->second, count_of(file.path));
    known->second.file = std::make_shared<const MappedFile>(std::move(file));
    files.push_back(known->second.file);
  }
  return files;
}

bool MappedFiles::has_room_for(std::uint32_t uid, std::size_t files) const {
  if (counted_ + files > kMaxFiles) return false;
  if (uid == 0) return true;
  const auto of_user = files_of_user_.find(uid);
  const std::size_t own = of_user == files_of_user_.end() ? 0 : of_user->second;
  return files_of_users_ + files <= kMaxFilesOfUsers && own + files <= kMaxFilesOfUser;
}

void MappedFiles::count(Entry& entry, std::size_t files) {
  const auto add = [&](std::size_t& sum) { sum = sum - entry.counted + files; };
  add(counted_);
  if (entry.uid != 0) {
    add(files_of_users_);
    const auto of_user = files_of_user_.try_emplace(entry.uid).first;
    add(of_user->second);
    if (of_user->second == 0) files_of_user_.erase(of_user);
  }
  entry.counted = files;
}

void MappedFiles::add_process(const ProcessKey& process, std::uint32_t uid) {
  users_.add(process, uid, owners_.owner_of(uid));
}

std::uint32_t MappedFiles::user_of(const ProcessKey& process) {
  const auto sampled = users_.uid_of(process);
  return owners_.owner_of(sampled ? *sampled : user_of_process(process.tgid));
}

std::shared_ptr<const MappedFile> MappedFiles::find(const FileKey& key) const {
  const auto found = files_.find(key);
  return found == files_.end() ? nullptr : found->second.file;
}

bool MappedFiles::may_open(std::uint32_t tgid, std::uint32_t uid, Clock::time_point now) {
  if (now - second_.began >= std::chrono::seconds(1)) second_ = {.began = now};
  const auto is_below = [](const auto& opens, std::uint32_t key, std::size_t limit) {
    const auto found = opens.find(key);
    return found == opens.end() || found->second < limit;
  };
  if (second_.opens >= kMaxNew || !is_below(second_.by_process, tgid, kMaxNewOfProcess)) {
    return false;
  }
  return uid == 0 ||
         (second_.of_users < kMaxNewOfUsers && is_below(second_.by_user, uid, kMaxNewOfUser));
}

void MappedFiles::count_open(std::uint32_t tgid, std::uint32_t uid) {
  ++second_.opens;
  ++second_.by_process[tgid];
  if (uid == 0) return;
  ++second_.of_users;
  ++second_.by_user[uid];
}

// Closes the file where the descriptors are used up. Root's files have no limit of their own: other
// users cannot raise their number.
void MappedFiles::charge_descriptor(MappedFile& file, Entry& entry) {
  const std::uint32_t payer = owners_.owner_of(file.owner);
  const auto owner = held_by_owner_.find(payer);
  const std::size_t of_owner = owner == held_by_owner_.end() ? 0 : owner->second;
  if (held_ >= descriptor_limit_ / kShareOfAll ||
      (payer != 0 && (held_of_users_ >= descriptor_limit_ / kShareOfUsers ||
                      of_owner >= descriptor_limit_ / kShareOfOwner))) {
    closer_.close(std::move(file.fd));
    file.error = "too many files are held";
    file.may_open_later = true;
    return;
  }
  entry.charged = payer;
  ++held_;
  if (payer != 0) ++held_of_users_;
  ++held_by_owner_[payer];
}

void MappedFiles::refund_descriptor(const Entry& entry) {
  if (!entry.file->fd.valid()) return;
  --held_;
  if (entry.charged != 0) --held_of_users_;
  const auto owner = held_by_owner_.find(entry.charged);
  if (--owner->second == 0) held_by_owner_.erase(owner);
}

void MappedFiles::release_unused() {
  for (auto entry = files_.begin(); entry != files_.end();) {
    const auto current = entry++;
    const std::shared_ptr<const MappedFile>& file = current->second.file;
    if (file.use_count() != 1 || file->is_opening) continue;
    if (file->fd.valid() && !closer_.has_room()) continue;
    refund_descriptor(current->second);
    count(current->second, 0);
    // Moved, so that the last reference is not the table's.
    std::shared_ptr<const MappedFile> unused = std::move(current->second.file);
    files_.erase(current);
    if (unused->fd.valid()) closer_.close(std::move(unused));
  }
}

}  // namespace profd
