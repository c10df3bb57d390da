#include "collectors/jit/followed_files.h"

#include <algorithm>
#include <string_view>
#include <utility>

#include "collectors/host/fair_share.h"

namespace profd {
namespace {

constexpr std::size_t kMaxOthers = 4096;
constexpr std::chrono::minutes kOtherLife{5};
constexpr std::chrono::seconds kShareRest{1};

// Any file may be mapped like a marker, so one that is no jitdump is refused, and counted, only if
// it has the name of one.
bool has_jit_name(const JitFile& file) {
  constexpr std::string_view kDeleted = " (deleted)";
  std::string_view name = std::string_view(file.path).substr(file.path.rfind('/') + 1);
  if (name.ends_with(kDeleted)) name.remove_suffix(kDeleted.size());
  return jit_file_name(name).has_value();
}

}  // namespace

void FollowedFiles::follow(JitScan& scan, Parser& parser, std::size_t max_events,
                           std::vector<JitEvent>& events) {
  std::erase_if(scan.files,
                [&](const auto& file) { return !follow(file, parser, max_events, events); });
}

bool FollowedFiles::follow(const std::shared_ptr<const JitFile>& file, Parser& parser,
                           std::size_t max_events, std::vector<JitEvent>& events) {
  if (files_.contains(file->id)) return true;
  if (is_known_as_other(*file)) return false;
  if (const auto reason = make_room(*file, events)) {
    stats_.refuse(*reason, file->id.owner);
    return false;
  }
  const auto followed = files_.emplace(file->id, FollowedFile(file)).first;
  const bool has_time = !is_over_share(file->id.owner, Clock::now());
  if (has_time && events.size() < max_events) read_one(followed, parser, events);
  return files_.contains(file->id);
}

bool FollowedFiles::is_known_as_other(const JitFile& file) {
  if (has_jit_name(file)) return false;
  const auto known = others_.find({file.id, file.changed_ns, file.born_ns});
  if (known == others_.end()) return false;
  if (Clock::now() < known->second) return true;
  others_.erase(known);
  return false;
}

void FollowedFiles::remember_as_other(const JitFile& file) {
  if (others_.size() >= kMaxOthers) others_.clear();
  others_.insert_or_assign({file.id, file.changed_ns, file.born_ns}, Clock::now() + kOtherLife);
}

std::optional<JitRefusal> FollowedFiles::make_room(const JitFile& file,
                                                   std::vector<JitEvent>& events) {
  if (files_.size() >= kMaxFiles) return JitRefusal::kQueueFull;
  const std::uint32_t payer = owners_.owner_of(file.id.owner);
  if (payer == 0) return std::nullopt;
  std::map<std::uint32_t, std::size_t> files_of;
  for (const auto& [id, followed] : files_) ++files_of[owners_.owner_of(id.owner)];
  if (files_of[payer] >= kMaxFilesOfOwner) return JitRefusal::kOverShare;
  if (files_.size() - files_of[0] < kMaxFilesOfUsers) return std::nullopt;
  const auto loser = user_with_more(files_of, payer);
  if (!loser) return JitRefusal::kQueueFull;
  end_one_of(*loser, events);
  return std::nullopt;
}

// The one that is due last: it does not grow, or its user has no time left.
void FollowedFiles::end_one_of(std::uint32_t payer, std::vector<JitEvent>& events) {
  auto last = files_.end();
  for (auto file = files_.begin(); file != files_.end(); ++file) {
    if (owners_.owner_of(file->first.owner) != payer) continue;
    if (last == files_.end() || last->second.due() < file->second.due()) last = file;
  }
  stats_.refuse(JitRefusal::kOverShare, last->first.owner);
  events.emplace_back(JitFileEnded{.file = last->first, .reason = JitRefusal::kOverShare});
  files_.erase(last);
}

// Returns the next file. A file that has ended is released.
FollowedFiles::Files::iterator FollowedFiles::read_one(Files::iterator file, Parser& parser,
                                                       std::vector<JitEvent>& events) {
  FollowedFile& followed = file->second;
  FollowedFile::Step step = followed.read_more(parser, Clock::now());
  charge(file->first.owner, step.took);
  stats_.bytes_read += step.bytes;
  if (step.grew) events.emplace_back(std::move(*step.grew));
  if (!step.end) return std::next(file);
  if (*step.end == JitRefusal::kMalformed && !has_jit_name(followed.file())) {
    remember_as_other(followed.file());
  } else {
    stats_.refuse(*step.end, file->first.owner);
  }
  events.emplace_back(JitFileEnded{.file = file->first, .reason = *step.end});
  return files_.erase(file);
}

void FollowedFiles::read_due(Parser& parser, std::size_t max_events,
                             std::vector<JitEvent>& events) {
  const Clock::time_point now = Clock::now();
  for (auto file = files_.begin(); file != files_.end() && events.size() < max_events;) {
    FollowedFile& followed = file->second;
    if (followed.due() > now) {
      ++file;
    } else if (is_over_share(file->first.owner, now)) {
      // Of one file, a single refusal counts, however often it has to wait.
      if (followed.defer(now + kShareRest)) {
        stats_.refuse(JitRefusal::kOverShare, file->first.owner);
      }
      ++file;
    } else {
      file = read_one(file, parser, events);
    }
  }
}

bool FollowedFiles::is_over_share(std::uint32_t owner, Clock::time_point now) {
  if (now - forgotten_at_ >= kForgetInterval) {
    forgotten_at_ = now;
    for (auto& [uid, time] : time_of_owner_) time /= 2;
    std::erase_if(time_of_owner_, [](const auto& entry) { return entry.second.count() == 0; });
  }
  const auto known = time_of_owner_.find(owners_.owner_of(owner));
  return owner != 0 && known != time_of_owner_.end() && known->second >= kMaxTime;
}

FollowedFiles::Clock::duration FollowedFiles::time_to_next(Clock::time_point now) const {
  Clock::duration time = std::chrono::hours(1);
  for (const auto& [id, file] : files_) time = std::min(time, file.due() - now);
  return time;
}

std::map<JitFileId, std::uint64_t> FollowedFiles::make_all_due() {
  std::map<JitFileId, std::uint64_t> times;
  for (auto& [id, file] : files_) {
    file.set_due({});
    times.emplace(id, file.times_at_end());
  }
  return times;
}

bool FollowedFiles::were_at_end_since(const std::map<JitFileId, std::uint64_t>& before) const {
  return std::ranges::all_of(before, [this](const auto& entry) {
    const auto known = files_.find(entry.first);
    return known == files_.end() || known->second.times_at_end() > entry.second;
  });
}

}  // namespace profd
