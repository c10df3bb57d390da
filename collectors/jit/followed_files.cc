#include "collectors/jit/followed_files.h"

#include <algorithm>
#include <utility>

namespace profd {
namespace {

constexpr std::size_t kMaxNoFiles = 4096;
constexpr std::chrono::minutes kNoFileLife{5};
constexpr std::chrono::seconds kShareRest{1};

// Only then is it news that it isn't a runtime's: anything may be mapped like one.
bool is_named_like_one(const JitFile& file) {
  constexpr std::string_view kDeleted = " (deleted)";
  std::string_view name = std::string_view(file.path).substr(file.path.rfind('/') + 1);
  if (name.ends_with(kDeleted)) name.remove_suffix(kDeleted.size());
  return jit_file_name(name).has_value();
}

}  // namespace

void FollowedFiles::follow(JitScan& look, Parser& parser, std::vector<JitEvent>& news) {
  std::erase_if(look.files, [&](const auto& file) { return !take_up(file, parser, news); });
}

bool FollowedFiles::take_up(const std::shared_ptr<const JitFile>& file, Parser& parser,
                            std::vector<JitEvent>& news) {
  if (files_.contains(file->id)) return true;
  if (is_known_as_none(*file)) return false;
  if (const auto reason = refusal_of(*file)) {
    refuse(*reason);
    return false;
  }
  const auto followed = files_.emplace(file->id, FollowedFile(file)).first;
  if (news.size() < JitFollower::kMaxReady) read_one(followed, parser, news);
  return files_.contains(file->id);
}

bool FollowedFiles::is_known_as_none(const JitFile& file) {
  if (is_named_like_one(file)) return false;
  const auto known = no_files_.find({file.id, file.changed_ns, file.born_ns});
  if (known == no_files_.end()) return false;
  if (Clock::now() < known->second) return true;
  no_files_.erase(known);
  return false;
}

void FollowedFiles::remember_as_none(const JitFile& file) {
  if (no_files_.size() >= kMaxNoFiles) no_files_.clear();
  no_files_.insert_or_assign({file.id, file.changed_ns, file.born_ns}, Clock::now() + kNoFileLife);
}

std::optional<JitRefusal> FollowedFiles::refusal_of(const JitFile& file) const {
  if (files_.size() >= JitFollower::kMaxFiles) return JitRefusal::kQueueFull;
  const auto of_owner = static_cast<std::size_t>(std::ranges::count_if(
      files_, [&file](const auto& known) { return known.second.file().owner == file.owner; }));
  if (file.owner != 0 && of_owner >= JitFollower::kMaxFilesOfOwner) return JitRefusal::kOverShare;
  return std::nullopt;
}

// The next one, since a file that is at its end is let go of.
FollowedFiles::Files::iterator FollowedFiles::read_one(Files::iterator file, Parser& parser,
                                                       std::vector<JitEvent>& news) {
  FollowedFile& followed = file->second;
  FollowedFile::Step step = followed.read_on(parser, Clock::now());
  time_of_owner_[followed.file().owner] += step.took;
  stats_.bytes_read += step.bytes;
  if (step.news) news.emplace_back(std::move(*step.news));
  if (!step.end) return std::next(file);
  if (*step.end == JitRefusal::kMalformed && !is_named_like_one(followed.file())) {
    remember_as_none(followed.file());
  } else {
    refuse(*step.end);
  }
  news.emplace_back(JitFileEnded{.file = file->first, .reason = *step.end});
  return files_.erase(file);
}

void FollowedFiles::read_due(Parser& parser, std::size_t max_news, std::vector<JitEvent>& news) {
  const Clock::time_point now = Clock::now();
  for (auto file = files_.begin(); file != files_.end() && news.size() < max_news;) {
    FollowedFile& followed = file->second;
    if (followed.due() > now) {
      ++file;
    } else if (is_over_share(followed.file().owner, now)) {
      refuse(JitRefusal::kOverShare);
      followed.set_due(now + kShareRest);
      ++file;
    } else {
      file = read_one(file, parser, news);
    }
  }
}

bool FollowedFiles::is_over_share(std::uint32_t owner, Clock::time_point now) {
  if (now - forgotten_at_ >= kForgetInterval) {
    forgotten_at_ = now;
    for (auto& [uid, time] : time_of_owner_) time /= 2;
    std::erase_if(time_of_owner_, [](const auto& entry) { return entry.second.count() == 0; });
  }
  const auto known = time_of_owner_.find(owner);
  return owner != 0 && known != time_of_owner_.end() && known->second >= kMaxTime;
}

FollowedFiles::Clock::duration FollowedFiles::time_to_next(Clock::time_point now) const {
  Clock::duration time = std::chrono::hours(1);
  for (const auto& [id, file] : files_) time = std::min(time, file.due() - now);
  return time;
}

std::map<JitFileId, std::uint64_t> FollowedFiles::hurry() {
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

void FollowedFiles::add_to(JitStats& stats) const {
  stats.files += files_.size();
  stats.following += files_.size();
  stats.bytes_read += stats_.bytes_read;
  for (std::size_t reason = 0; reason < kJitRefusalCount; ++reason) {
    stats.refused[reason] += stats_.refused[reason];
  }
}

}  // namespace profd
