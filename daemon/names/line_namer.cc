#include "daemon/names/line_namer.h"

#include <sys/stat.h>

#include <algorithm>
#include <utility>

#include <fmt/core.h>

#include "collectors/files/debug_files.h"
#include "daemon/names/name_cache.h"

namespace profd {
namespace {

using std::chrono::nanoseconds;

// Opening a large file and one of its units take about this long; less would be spent for nothing.
constexpr std::chrono::milliseconds kMinTime{50};

// A file is refused as too slow only if it had as much time as the first file of a user in a
// window.
constexpr std::chrono::milliseconds kTimeToRefuse{125};

constexpr std::size_t kMaxWaiting = 4096;  // files

// With the debug file, which may be installed later than the file. By payer, since a file that is
// too slow for the little time of one user is not too slow for another.
std::string key_of_source(const LineNamer::Source& source) {
  std::string key = source.identity;
  struct stat status {};
  if (source.debug_fd >= 0 && ::fstat(source.debug_fd, &status) == 0) {
    key += fmt::format("+{:x}-{:x}", status.st_dev, status.st_ino);
  }
  if (source.payer != 0) key += fmt::format("@{}", source.payer);
  return key;
}

// Whether the address may be asked for again: the answer may then be another one.
bool may_change(DwarfLoss loss) {
  return is_of_file(loss) || loss == DwarfLoss::kCpuTime || loss == DwarfLoss::kEntries ||
         loss == DwarfLoss::kAnswerBytes || loss == DwarfLoss::kTooMany;
}

// The frames of the symbol table and of DWARF as one list.
AddressNames merged_names(const NameTable& names, const NameTable::Entry& entry,
                          const DwarfAddress& answer) {
  AddressNames merged{.address = answer.names.address,
                      .frames = answer.names.frames,
                      .source = entry.source,
                      .is_folded = entry.is_folded};
  CodeFrame outermost = names.frame(names.lines(entry).back());
  if (merged.frames.empty()) {
    outermost.file = answer.file;
    outermost.line = answer.line;
    merged.frames.push_back(std::move(outermost));
    return merged;
  }
  if (merged.frames.size() > 1) merged.source = NameSource::kDwarf;
  merged.frames.back().name = std::move(outermost.name);
  merged.frames.back().system_name = std::move(outermost.system_name);
  return merged;
}

}  // namespace

void LineNamer::add_lines(const Source& source, std::span<const std::uint64_t> addresses,
                          NameTable& names, LineBudget& budget) {
  const std::string key = key_of_source(source);
  const auto now = std::chrono::steady_clock::now();
  if (refused_.find(key, now)) return;
  if (waiting_->size() > kMaxWaiting) waiting_.clear();
  SeededHash hash(seed_);
  hash.add_text(key);
  Waiting& waiting = (*waiting_)[hash.value()];
  waiting.samples += source.samples;
  waiting.is_users = source.payer != 0;
  waiting.hit_at = now;
  if (!budget.is_worth(waiting.cost, waiting.samples)) return;
  const nanoseconds at_start = cpu_time();
  add_all(source, key, addresses, names, budget);
  waiting.cost = cpu_time() - at_start;
  waiting.samples = 0;
  // A refused file waits for no samples.
  if (refused_.find(key, now)) waiting_->erase(hash.value());
}

void LineNamer::trim(std::chrono::steady_clock::time_point now) {
  waiting_.erase_if([now](const auto& entry) {
    return entry.second.is_users && now - entry.second.hit_at > NameCache::kUnused;
  });
}

void LineNamer::add_all(const Source& source, const std::string& key,
                        std::span<const std::uint64_t> addresses, NameTable& names,
                        LineBudget& budget) {
  DwarfFiles files{.file = source.fd, .debug_file = source.debug_fd};
  UniqueFd alt_file;
  bool is_first = true;
  while (!addresses.empty()) {
    // The rest is for other files.
    const nanoseconds time = budget.left_for(source.payer) / 2;
    if (time < kMinTime) {
      count_unasked(addresses.size(), budget);
      return;
    }
    const nanoseconds before = cpu_time();
    if (std::exchange(is_first, false)) {
      const auto link = symbolizer_for(files).find_alt_link(files);
      if (link && !link->path.empty()) alt_file = open_alt_file(link->path, link->build_id);
      files.alt_file = alt_file.get();
    }
    const auto some = addresses.first(std::min(addresses.size(), kMaxDwarfAddresses));
    const bool are_done = add_some(files, key, some, time, names, budget);
    budget.spend(source.payer, cpu_time() - before);
    addresses = addresses.subspan(some.size());
    if (!are_done) {
      count_unasked(addresses.size(), budget);
      return;
    }
  }
}

// They are asked for again where the rest of the time is shared.
void LineNamer::count_unasked(std::size_t addresses, const LineBudget& budget) {
  if (budget.keeps_rest()) return;
  stats_.addresses_lost.at(static_cast<std::size_t>(DwarfLoss::kCpuTime)) += addresses;
}

bool LineNamer::add_some(const DwarfFiles& files, const std::string& key,
                         std::span<const std::uint64_t> addresses, nanoseconds time,
                         NameTable& names, const LineBudget& budget) {
  const auto answers = symbolizer_for(files).find_frames(files, addresses, time);
  if (!answers || answers->empty()) return false;
  const DwarfLoss loss = answers->front().loss;
  if (is_of_file(loss)) {
    refuse(key, loss);
    return false;
  }
  // A file that takes all the time before it answers anything would do so each time. It gets more
  // where the rest of the time is shared.
  if (!budget.keeps_rest() && time >= kTimeToRefuse &&
      std::ranges::all_of(*answers, &may_change, &DwarfAddress::loss)) {
    refuse(key, DwarfLoss::kTimeLimit);
  }
  return apply(*answers, names, budget);
}

bool LineNamer::apply(const std::vector<DwarfAddress>& answers, NameTable& names,
                      const LineBudget& budget) {
  bool are_done = true;
  for (const DwarfAddress& answer : answers) {
    const bool is_asked_again = budget.keeps_rest() && may_change(answer.loss);
    if (answer.loss != DwarfLoss::kNone && !is_asked_again) {
      ++stats_.addresses_lost.at(static_cast<std::size_t>(answer.loss));
    }
    if (!answer.names.frames.empty()) ++stats_.answered;
    if (may_change(answer.loss)) {
      are_done = false;
      continue;
    }
    const NameTable::Entry* const entry = names.find(answer.names.address);
    if (entry == nullptr || names.lines(*entry).empty()) continue;
    names.set(merged_names(names, *entry, answer), false);
  }
  return are_done;
}

void LineNamer::refuse(const std::string& key, DwarfLoss loss) {
  refused_.add(key, loss, std::chrono::steady_clock::now());
  ++stats_.files_refused.at(static_cast<std::size_t>(loss));
}

void LineNamer::end_children() {
  roots_.end_child();
  others_.end_child();
}

Symbolizer& LineNamer::symbolizer_for(const DwarfFiles& files) {
  latest_ = are_of_root(files) ? &roots_ : &others_;
  return *latest_;
}

LineStats LineNamer::stats() const {
  LineStats stats = stats_;
  stats.cpu_time = cpu_time();
  stats.failures = roots_.failures() + others_.failures();
  return stats;
}

}  // namespace profd
