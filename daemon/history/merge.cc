#include "daemon/history/merge.h"

#include <algorithm>
#include <utility>

#include "daemon/base/log.h"
#include "daemon/profiles/kernel_image.h"
#include "daemon/samples/hash_seed.h"
#include "formats/profile/gperftools_reader.h"

namespace profd {
namespace {

constexpr const char* kUnreadable = "unreadable";

// The memory of a Merged and its entry in the map.
constexpr std::uint64_t kProcessBytes = 1024;

bool is_kernel_pc(std::uint64_t pc) { return unfold_kernel_address(pc) != pc; }

void add_counts(const CountsByReason& from, CountsByReason& to) {
  for (const auto& [reason, count] : from) to[reason] += count;
}

// The unit and the container are those of the newest window.
void add_summary(const ProfileSummary& from, ProfileSummary& to) {
  to.pid = from.pid;
  to.start_time_ns = from.start_time_ns;
  to.comm = from.comm;
  to.samples += from.samples;
  to.user_samples += from.user_samples;
  to.complete_samples += from.complete_samples;
  to.kernel_only_samples += from.kernel_only_samples;
  add_counts(from.incomplete, to.incomplete);
  to.unit = from.unit;
  to.container = from.container;
  if (from.jit && to.jit) add_later(*from.jit, *to.jit);
  if (from.jit && !to.jit) to.jit = from.jit;
}

}  // namespace

void WindowMerge::add(const WindowFiles& files, const WindowView& view) {
  const SessionLedger& ledger = view.summary.ledger;
  ledger_.taken += ledger.taken;
  add_counts(ledger.lost, ledger_.lost);
  for (const ProfileSummary& summary : view.summary.profiles) {
    const Result<Profile> profile = read(files, summary.path);
    if (profile && merge(*profile, summary)) continue;
    ledger_.lost[kUnreadable] += summary.samples;
    log::warn("a profile of window {} is left out: {}", view.summary.session,
              profile ? "its mappings are invalid" : profile.error().message);
  }
}

std::vector<WindowMerge::Merged> WindowMerge::take() {
  std::vector<Merged> all;
  for (auto& [id, merged] : processes_) std::ranges::move(merged, std::back_inserter(all));
  processes_.clear();
  return all;
}

Result<Profile> WindowMerge::read(const WindowFiles& files, const std::string& path) const {
  const Result<std::string> bytes = files.read_profile(path);
  if (!bytes) return bytes.error();
  Result<Profile> profile = decode_gperftools(*bytes);
  if (!profile || !hide_kernel_) return profile;
  return with_hidden_kernel(*profile);
}

// Merges into the newest profile of the process that accepts it, else into a new one.
bool WindowMerge::merge(const Profile& profile, const ProfileSummary& summary) {
  std::vector<Merged>& known = processes_[{summary.pid, summary.start_time_ns, summary.comm}];
  for (auto merged = known.rbegin(); merged != known.rend(); ++merged) {
    const std::uint64_t before = merged->profile.bytes();
    if (!merged->profile.add(profile)) continue;
    add_summary(summary, merged->summary);
    bytes_ += merged->profile.bytes() - before;
    return true;
  }
  Merged fresh{.profile = ProfileMerge(daemon_hash_seed()), .summary = {}};
  if (!fresh.profile.add(profile)) return false;
  add_summary(summary, fresh.summary);
  bytes_ += fresh.profile.bytes() + kProcessBytes;
  known.push_back(std::move(fresh));
  return true;
}

Profile with_hidden_kernel(const Profile& profile) {
  const KernelImage kernel = KernelImage::hidden();
  std::vector<Frame> frame;
  kernel.append_frames(std::array{~std::uint64_t{0}}, frame);
  const std::uint64_t hidden = fold_kernel_address(frame.front().pc);
  Profile shown;
  shown.period = profile.period;
  bool has_kernel = false;
  std::vector<std::uint64_t> pcs;
  for (const Profile::Record& record : profile.records()) {
    pcs.clear();
    for (const std::uint64_t pc : profile.pcs(record)) {
      if (!is_kernel_pc(pc)) {
        pcs.push_back(pc);
      } else if (pcs.empty() || pcs.back() != hidden) {
        pcs.push_back(hidden);
      }
    }
    has_kernel = has_kernel || std::ranges::any_of(pcs, is_kernel_pc);
    shown.add_record(pcs, record.count);
  }
  std::ranges::copy_if(profile.mappings, std::back_inserter(shown.mappings),
                       [](const ProfileMapping& mapping) { return !is_kernel_pc(mapping.start); });
  if (has_kernel) shown.mappings.push_back(kernel.mapping());
  return shown;
}

}  // namespace profd
