#include "daemon/history/window_sums.h"

#include <algorithm>
#include <optional>
#include <string_view>
#include <utility>

#include "daemon/profiles/counted_samples.h"

namespace profd {

namespace {

// In both lists: the names of the members, the figures, and the ids.
constexpr std::size_t kEntriesBytes = 400;
constexpr std::size_t kReasonBytes = 24;
constexpr std::size_t kInterpretedBytes = 224;

// The memory of an entry besides long texts.
constexpr std::size_t kEntryMemory =
    sizeof(ProfileSummary) + sizeof(WindowProfile) + sizeof(ProcessLabels) + 64;

// As a text of JSON.
std::size_t json_bytes(std::string_view text) {
  std::size_t bytes = 0;
  for (const char c : text) {
    const bool is_control = static_cast<unsigned char>(c) < ' ';
    bytes += is_control ? 6 : c == '"' || c == '\\' ? 2 : 1;
  }
  return bytes;
}

// The cgroup that both are below: "/a/b" of "/a/b/c" and "/a/b/d".
std::string common_cgroup(const std::string& one, const std::string& other) {
  const std::string path = one + '/';
  const std::string other_path = other + '/';
  const auto apart = std::ranges::mismatch(path, other_path).in1;
  const std::string shared(path.begin(), apart);
  const std::size_t end = shared.rfind('/');
  return end == std::string::npos ? std::string() : shared.substr(0, end);
}

std::size_t file_bytes_of(const ProfileSummary& summary, const WindowProfile& profile) {
  const ProcessLabels& labels = profile.labels;
  std::size_t bytes = kEntriesBytes + json_bytes(profile.cgroup);
  // In the summary, in the record, and in the profile.
  for (const std::string* text : {&labels.comm, &labels.unit, &labels.container}) {
    bytes += 2 * json_bytes(*text) + text->size();
  }
  for (const std::string* text : {&labels.pod, &labels.user, &labels.runtime}) {
    bytes += json_bytes(*text) + text->size();
  }
  bytes += kReasonBytes * summary.incomplete.size();
  if (summary.interpreted) bytes += kInterpretedBytes;
  return summary.jit ? bytes + json_bytes(summary.jit->file) : bytes;
}

template <class Names>
void add_names(const std::optional<Names>& other, std::optional<Names>& sum) {
  if (!other) return;
  if (sum) {
    add_later(*other, *sum);
  } else {
    sum = other;
  }
}

}  // namespace

void WindowSums::add(ProfileSummary summary, WindowProfile profile) {
  const auto [place, added] = places_.try_emplace(profile.labels, profiles_.size());
  if (added) {
    bytes_ += kEntryMemory + file_bytes_of(summary, profile);
    summaries_.push_back(std::move(summary));
    profiles_.push_back(std::move(profile));
    return;
  }
  add_figures(summary, summaries_[place->second]);
  WindowProfile& known = profiles_[place->second];
  if (known.owner != profile.owner) known.owner.reset();
  if (known.user != profile.user) known.user.reset();
  known.cgroup = common_cgroup(known.cgroup, profile.cgroup);
}

std::optional<std::size_t> WindowSums::place_of(const ProcessLabels& labels) const {
  const auto known = places_.find(labels);
  return known == places_.end() ? std::nullopt : std::optional(known->second);
}

std::size_t WindowSums::file_bytes(std::size_t place) const {
  return file_bytes_of(summaries_[place], profiles_[place]);
}

void WindowSums::fold(std::span<const WindowProfile* const> into) {
  WindowSums folded;
  for (std::size_t i = 0; i < profiles_.size(); ++i) {
    if (into[i] == nullptr) {
      folded.add(std::move(summaries_[i]), std::move(profiles_[i]));
      continue;
    }
    ProfileSummary summary;
    add_figures(summaries_[i], summary);
    summary.jit.reset();
    summary.interpreted.reset();
    summary.pid = into[i]->labels.pid;
    summary.comm = into[i]->labels.comm;
    folded.add(std::move(summary), *into[i]);
  }
  *this = std::move(folded);
}

void WindowSums::finish(const PprofProfile& profile, SessionSummary& summary,
                        WindowRecord& record) && {
  std::vector<std::size_t> place_of_set;
  for (std::uint32_t set = 0; set < profile.labels_count(); ++set) {
    const auto known = places_.find(labels_of(profile, set));
    place_of_set.push_back(known == places_.end() ? summaries_.size() : known->second);
  }
  for (ProfileSummary& one : summaries_) one.samples = one.stacks = 0;
  const CountedSamples counted(profile);
  for (std::size_t i = 0; i < profile.samples().size(); ++i) {
    const std::size_t place = place_of_set[profile.samples()[i].labels];
    if (place == summaries_.size()) continue;
    summaries_[place].samples += counted[i];
    ++summaries_[place].stacks;
  }
  summary.profiles = std::move(summaries_);
  record.profiles = std::move(profiles_);
}

void add_figures(const ProfileSummary& other, ProfileSummary& sum) {
  sum.samples += other.samples;
  sum.stacks += other.stacks;
  sum.user_samples += other.user_samples;
  sum.complete_samples += other.complete_samples;
  sum.kernel_only_samples += other.kernel_only_samples;
  for (const auto& [reason, count] : other.incomplete) sum.incomplete[reason] += count;
  add_names(other.jit, sum.jit);
  add_names(other.interpreted, sum.interpreted);
}

}  // namespace profd
