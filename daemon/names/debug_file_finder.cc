#include "daemon/names/debug_file_finder.h"

#include <sys/stat.h>

#include <algorithm>
#include <iterator>

#include <boost/container_hash/hash.hpp>
#include <fmt/core.h>

#include "collectors/host/clock.h"
#include "daemon/names/parser_errors.h"

namespace profd {
namespace {

using std::chrono::nanoseconds;
using Clock = std::chrono::steady_clock;

constexpr std::size_t kMaxVerdicts = 4096;
constexpr std::size_t kMaxMissing = 4096;
// A search takes a dozen system calls and three changes of the thread. Files without DWARF are
// asked for in each window.
constexpr std::chrono::minutes kMissingTime{10};
constexpr std::chrono::milliseconds kRootsTime{200};

std::int64_t changed_ns(const std::string& path) {
  struct stat status {};
  return ::stat(path.c_str(), &status) == 0 ? nanoseconds_of(status.st_mtim) : 0;
}

// Of the directories of all first bytes of build ids, which takes 0.3 ms. Most hosts have none.
std::size_t changes_in(const std::string& directory) {
  constexpr unsigned kFirstBytes = 256;
  const std::string ids = directory + "/.build-id";
  const std::int64_t changed = changed_ns(ids);
  std::size_t hash = 0;
  boost::hash_combine(hash, changed);
  if (changed == 0) return hash;
  for (unsigned byte = 0; byte < kFirstBytes; ++byte) {
    boost::hash_combine(hash, changed_ns(fmt::format("{}/{:02x}", ids, byte)));
  }
  return hash;
}

const std::string& path_of(const HitProcess& process, const DebugFileQuery& query) {
  return process.own_path ? *process.own_path : query.path;
}

DebugFileRefusal refusal_of(const Error& error) {
  return is_temporary(error) ? DebugFileRefusal::kOverBudget : DebugFileRefusal::kMalformed;
}

}  // namespace

DebugFileFinder::Found DebugFileFinder::find(const Wanted& wanted, nanoseconds& time_left) {
  const std::vector<DueProcess> due = due_processes(wanted);
  if (due.empty()) return {};
  const auto undecided = [this] {
    return refused(DebugFileRefusal::kLate) + refused(DebugFileRefusal::kOverBudget);
  };
  const std::uint64_t undecided_before = undecided();
  DebugFileAt found = search(wanted, due, time_left);
  if (found.fd.valid()) {
    return {.file = closer_.closed_here(std::make_shared<const UniqueFd>(std::move(found.fd))),
            .is_private = found.is_private};
  }
  if (undecided() != undecided_before) return {};  // the next search asks again
  if (missing_->size() >= kMaxMissing) missing_.clear();
  const Clock::time_point now = Clock::now();
  for (const DueProcess& process : due) missing_->insert_or_assign(process.search, now);
  return {};
}

const RootId& DebugFileFinder::root_of(std::uint32_t tgid) {
  const Clock::time_point now = Clock::now();
  if (now - roots_since_ > kRootsTime) {
    roots_.clear();
    roots_since_ = now;
  }
  const auto known = roots_.find(tgid);
  return known != roots_.end() ? known->second
                               : roots_.emplace(tgid, root_id_of(tgid)).first->second;
}

// One process of a user at a time, root's first and the others in any order: a process can have a
// new root whenever it likes, so it can be due each time.
std::vector<DebugFileFinder::DueProcess> DebugFileFinder::due_processes(const Wanted& wanted) {
  const DebugFileQuery& query = wanted.query;
  const HitProcess of_owner{.tgid = 0, .payer = query.owner};
  std::vector<const HitProcess*> processes;
  for (const HitProcess& process : wanted.processes) processes.push_back(&process);
  if (processes.empty()) processes.push_back(&of_owner);
  const auto others = std::partition(processes.begin(), processes.end(),
                                     [](const HitProcess* process) { return process->payer == 0; });
  std::shuffle(others, processes.end(), random_);

  std::vector<DueProcess> due;
  for (const HitProcess* const process : processes) {
    if (due.size() == kMaxProcesses) break;
    const auto is_payers = [process](const DueProcess& one) {
      return one.process.payer == process->payer;
    };
    if (std::ranges::any_of(due, is_payers)) continue;
    const std::uint64_t search = search_of(wanted, *process);
    const auto known = missing_->find(search);
    if (known != missing_->end() && Clock::now() - known->second < kMissingTime) continue;
    if (std::ranges::find(due, search, &DueProcess::search) != due.end()) continue;
    due.push_back({*process, search});
  }
  return due;
}

std::uint64_t DebugFileFinder::search_of(const Wanted& wanted, const HitProcess& process) {
  const DebugFileQuery& query = wanted.query;
  const auto& [device, inode, directory] = root_of(process.tgid);
  SeededHash hash(seed_);
  hash.add(std::array{static_cast<std::uint64_t>(query.audience), device, inode});
  hash.add_text(wanted.identity);
  hash.add_text(directory);
  if (!query.debug_link.empty()) hash.add_text(path_of(process, query));
  return hash.value();
}

// Without a descriptor where there is none.
DebugFileAt DebugFileFinder::search(const Wanted& wanted, std::span<const DueProcess> processes,
                                    nanoseconds& time_left) {
  std::optional<DebugFileAt> in_host = open_in_host(wanted.query, directories_.host);
  if (in_host && is_accepted(wanted, *in_host, time_left)) return std::move(*in_host);
  std::optional<DebugFileAt> in_cache = open_in_cache(wanted.query, directories_.cache);
  if (in_cache && is_accepted(wanted, *in_cache, time_left)) return std::move(*in_cache);
  DebugFileAt found;
  for (DebugFileAt& file : open_in_roots(wanted, processes)) {
    if (!found.fd.valid() && is_accepted(wanted, file, time_left)) {
      found = std::move(file);
    } else {
      closer_.close(std::move(file.fd));
    }
  }
  return found;
}

// The roots of processes, and that of profd: the process may have ended, and is mostly of the host.
// In profd's, the path of a file means the file only if its process has profd's mounts.
std::vector<DebugFileAt> DebugFileFinder::open_in_roots(const Wanted& wanted,
                                                        std::span<const DueProcess> due) {
  std::vector<HitProcess> processes;
  for (const DueProcess& one : due) processes.push_back(one.process);
  const auto of_host = std::ranges::find_if_not(
      processes, [](const HitProcess& process) { return has_other_mounts(process.tgid); });
  if (of_host != processes.end()) {
    processes.push_back({.tgid = 0, .payer = of_host->payer, .own_path = of_host->own_path});
  }
  std::vector<DebugFileAt> all;
  for (const HitProcess& process : processes) {
    DebugFileQuery query = wanted.query;
    query.path = path_of(process, query);
    auto found = runner_.run(process.payer, [tgid = process.tgid, query = std::move(query)] {
      return open_in_root_of(tgid, query);
    });
    if (!found) {
      ++refused(DebugFileRefusal::kLate);
      continue;
    }
    std::ranges::move(*found, std::back_inserter(all));
  }
  return all;
}

bool DebugFileFinder::is_accepted(const Wanted& wanted, const DebugFileAt& file,
                                  nanoseconds& time_left) {
  const Verdict refusal = file.refusal ? file.refusal : judge(wanted, file.fd.get(), time_left);
  if (refusal) {
    ++refused(*refusal);
  } else {
    ++stats_.found.at(static_cast<std::size_t>(file.place));
  }
  return !refusal;
}

DebugFileFinder::Verdict DebugFileFinder::judge(const Wanted& wanted, int debug_fd,
                                                nanoseconds& time_left) {
  struct stat status {};
  if (::fstat(debug_fd, &status) != 0) return DebugFileRefusal::kMalformed;
  const Pair pair{
      wanted.identity,
      {status.st_dev, status.st_ino, static_cast<std::uint64_t>(nanoseconds_of(status.st_ctim)),
       static_cast<std::uint64_t>(status.st_size)}};
  const auto known = verdicts_.find(pair);
  if (known != verdicts_.end()) return known->second;
  const bool is_limited = wanted.query.owner != 0 || status.st_uid != 0;
  if (is_limited && time_left <= nanoseconds(0)) return DebugFileRefusal::kOverBudget;
  const Clock::time_point started = Clock::now();
  const Verdict verdict = match(wanted.fd, debug_fd);
  if (is_limited) time_left -= Clock::now() - started;
  if (verdict == DebugFileRefusal::kOverBudget) return verdict;
  if (verdicts_.size() >= kMaxVerdicts) verdicts_.clear();
  verdicts_.emplace(pair, verdict);
  return verdict;
}

DebugFileFinder::Verdict DebugFileFinder::match(int fd, int debug_fd) {
  const auto match = parser_.match_debug_file(fd, debug_fd);
  if (!match) return refusal_of(match.error());
  switch (*match) {
    case DebugFileMatch::kMatches:
      return std::nullopt;
    case DebugFileMatch::kOtherBuildId:
      return DebugFileRefusal::kOtherBuildId;
    case DebugFileMatch::kOtherChecksum:
      return DebugFileRefusal::kOtherChecksum;
    case DebugFileMatch::kTooLarge:
      return DebugFileRefusal::kTooLarge;
  }
  return DebugFileRefusal::kMalformed;
}

bool DebugFileFinder::have_changed() {
  const std::array now{changes_in(directories_.host), changes_in(directories_.cache)};
  if (std::exchange(changes_, now) == now) return false;
  missing_.clear();
  return true;
}

void DebugFileFinder::trim(Clock::time_point now) {
  missing_.erase_if([now](const auto& entry) { return now - entry.second >= kMissingTime; });
}

}  // namespace profd
