#include "collectors/files/mapped_files.h"

#include <sys/resource.h>

#include <utility>

namespace profd {
namespace {

constexpr std::size_t kMaxFiles = 65'536;
constexpr std::chrono::seconds kRetryInterval{1};
// Divisors of the descriptor limit.
constexpr std::size_t kShareOfAll = 2;
constexpr std::size_t kShareOfOwner = 16;
constexpr const char* kTooSlow = "the open takes too long";

// Over a limit that others may soon use less of.
std::shared_ptr<const MappedFile> unopened_of(const MappingView& mapping, const char* why) {
  MappedFile file = unopened(place_of(mapping), why);
  file.may_open_later = true;
  return std::make_shared<const MappedFile>(std::move(file));
}

}  // namespace

MappedFiles::MappedFiles(std::size_t descriptor_limit, Opener opener)
    : opener_(opener ? std::move(opener) : &open_by_mapping), descriptor_limit_(descriptor_limit) {}

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
    if (entry.file->fd.valid() || now - entry.opened_at < kRetryInterval) return entry.file;
  } else if (files_.size() >= kMaxFiles) {
    return unopened_of(mapping, "too many files are known");
  }
  if (!may_open(mapping.process.tgid, now)) {
    return unopened_of(mapping, "too many new files within a second");
  }
  MappedFile file = open(mapping);
  if (file.fd.valid()) charge_descriptor(file);
  auto shared = std::make_shared<const MappedFile>(std::move(file));
  files_.insert_or_assign(mapping.file, Entry{.file = shared, .opened_at = now});
  return shared;
}

std::shared_ptr<const MappedFile> MappedFiles::find(const FileKey& key) const {
  const auto found = files_.find(key);
  return found == files_.end() ? nullptr : found->second.file;
}

MappedFile MappedFiles::open(const MappingView& mapping) {
  const MappingPlace place = place_of(mapping);
  if (place.on_fuse) return open_by_names(place, kTooSlow);
  std::optional<MappedFile> opened = open_in_time(place);
  if (opened && opened->fd.valid()) return std::move(*opened);
  MappedFile named = open_by_names(place, opened ? opened->error : kTooSlow);
  named.may_open_later = !named.fd.valid() && (!opened || opened->may_open_later);
  return named;
}

std::optional<MappedFile> MappedFiles::open_in_time(const MappingPlace& place) {
  const std::uint32_t uid = user_of_process(place.tgid);
  if (late_in_second_ >= kMaxLate || !runner_.has_thread_for(uid)) return std::nullopt;
  std::optional<MappedFile> opened =
      runner_.run(uid, [place, opener = opener_] { return opener(place); });
  if (!opened) ++late_in_second_;
  return opened;
}

bool MappedFiles::may_open(std::uint32_t tgid, Clock::time_point now) {
  if (now - second_began_ >= std::chrono::seconds(1)) {
    second_began_ = now;
    opened_in_second_ = 0;
    late_in_second_ = 0;
    opened_by_process_.clear();
  }
  return ++opened_by_process_[tgid] <= kMaxNewOfProcess && ++opened_in_second_ <= kMaxNew;
}

// Closes the file where the descriptors are used up. Root's files have no limit of their own: other
// users cannot raise their number.
void MappedFiles::charge_descriptor(MappedFile& file) {
  const auto owner = held_by_owner_.find(file.owner);
  const std::size_t of_owner = owner == held_by_owner_.end() ? 0 : owner->second;
  if (held_ >= descriptor_limit_ / kShareOfAll ||
      (file.owner != 0 && of_owner >= descriptor_limit_ / kShareOfOwner)) {
    file.fd.reset();
    file.error = "too many files are held";
    file.may_open_later = true;
    return;
  }
  ++held_;
  ++held_by_owner_[file.owner];
}

void MappedFiles::refund_descriptor(const MappedFile& file) {
  if (!file.fd.valid()) return;
  --held_;
  const auto owner = held_by_owner_.find(file.owner);
  if (--owner->second == 0) held_by_owner_.erase(owner);
}

void MappedFiles::release_unused() {
  std::erase_if(files_, [this](const auto& entry) {
    const std::shared_ptr<const MappedFile>& file = entry.second.file;
    if (file.use_count() != 1) return false;
    refund_descriptor(*file);
    return true;
  });
}

}  // namespace profd
