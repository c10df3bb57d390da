#include "daemon/names/file_namer.h"

#include <algorithm>
#include <chrono>
#include <functional>
#include <iterator>
#include <span>
#include <utility>
#include <vector>

#include "collectors/files/vdso.h"
#include "daemon/names/file_identity.h"
#include "daemon/names/parser_errors.h"
#include "formats/symbols/find_code_names.h"

namespace profd {
namespace {

constexpr std::size_t kMaxSummaries = 4096;
constexpr std::size_t kMaxWithPrivateNames = 4096;
constexpr std::uint32_t kRoot = 0;

DebugFileQuery query_of(const ElfSummary& elf, const std::string& path, std::uint32_t owner,
                        NameAudience audience) {
  return {.build_id = elf.build_id,
          .debug_link = elf.debug_link,
          .path = path,
          .owner = owner,
          .audience = audience};
}

// Go's own table has inlined functions and lines, and slots of the PLT have no lines.
bool is_from_symbols(NameSource source) {
  return source == NameSource::kSymbolTable || source == NameSource::kDebugFile ||
         source == NameSource::kMiniDebugInfo || source == NameSource::kDynamicSymbols;
}

NameSource reason_of(const Error& error) {
  return error.code == ErrorCode::kTooLarge || error.code == ErrorCode::kBusy
             ? NameSource::kOverBudget
             : NameSource::kRefused;
}

bool may_be_read(const HitFile& hit) {
  return !hit.file->is_private || std::ranges::any_of(hit.users, [&](std::uint32_t uid) {
    return may_be_read_by(*hit.file, uid);
  });
}

NameAudience audience_of(const HitFile& hit) {
  const auto is_one_of = [&hit](std::uint32_t uid) {
    return uid == kRoot || uid == hit.file->owner;
  };
  if (!std::ranges::all_of(hit.users, is_one_of)) return NameAudience::kOthers;
  const bool is_of_root = std::ranges::all_of(hit.users, [](auto uid) { return uid == kRoot; });
  return is_of_root ? NameAudience::kRoot : NameAudience::kOwner;
}

}  // namespace

std::optional<std::uint64_t> NamedFile::address_of(std::uint64_t file_offset) const {
  if (!elf) return std::nullopt;
  const Result<std::uint64_t> address = vaddr_of_offset(*elf, file_offset);
  return address ? std::optional(*address) : std::nullopt;
}

NamedFile FileNamer::name(const HitFile& hit, SymbolBudgets& budgets) {
  const MappedFile& file = *hit.file;
  if (!may_be_read(hit)) return {.missing = NameSource::kNotReadable};
  const ElfSummary* elf = find_or_read(file, budgets);
  if (elf == nullptr) {
    return {.missing = file.fd.valid() ? NameSource::kRefused : NameSource::kNoFile};
  }
  NamedFile named = name({.fd = file.fd.get(),
                          .path = file.path,
                          .owner = file.owner,
                          .processes = hit.processes,
                          .audience = audience_of(hit)},
                         *elf, file_identity(file, *elf), hit.samples_by_offset, budgets);
  for (const auto& [payer, hits] : hit.hits_by_payer) cache_.add_payer(named.identity, payer);
  return named;
}

NamedFile FileNamer::name_vdso(const std::map<std::uint64_t, std::uint64_t>& samples_by_offset,
                               SymbolBudgets& budgets) {
  if (!vdso_.valid()) {
    Result<UniqueFd> copy = copy_own_vdso();
    if (!copy) return {};
    vdso_ = std::move(*copy);
  }
  const Result<ElfSummary> elf = parser_.read_elf_summary(vdso_.get());
  if (!elf) return {.missing = NameSource::kRefused};
  return name({.fd = vdso_.get(), .path = "[vdso]", .owner = kRoot}, *elf, "vdso",
              samples_by_offset, budgets);
}

NamedFile FileNamer::name(const Source& source, const ElfSummary& elf, const std::string& identity,
                          const std::map<std::uint64_t, std::uint64_t>& samples_by_offset,
                          SymbolBudgets& budgets) {
  NamedFile named{
      .elf = elf, .identity = key_of_names(identity, source.audience), .missing = NameSource::kGap};
  NameTable* names = &cache_.names_of(named.identity);
  named.names = names;
  Unknown unknown = unknown_of(named, source, samples_by_offset);
  if (unknown.addresses.empty() && unknown.gaps.empty()) return named;
  const DebugFileFinder::Wanted wanted{
      .fd = source.fd,
      .identity = identity,
      .query = query_of(elf, source.path, source.owner, source.audience),
      .processes = source.processes};
  const bool may_improve = source.fd >= 0 && !unknown.gaps.empty() && debug_files_.is_due(wanted);
  if (unknown.addresses.empty() && !may_improve) return named;
  if (source.fd < 0) {
    named.missing = NameSource::kNoFile;
    return named;
  }
  SymbolBudget& budget = budgets.of(source.owner);
  const DebugFileFinder::Found debug = debug_files_.find(wanted, budget.time);
  if (debug.is_private && with_private_names_.insert(identity).second) {
    named.identity = key_of_names(identity, source.audience);
    named.names = names = &cache_.names_of(named.identity);
    unknown = unknown_of(named, source, samples_by_offset);
  }
  if (debug.file) unknown.add_gaps();
  if (unknown.addresses.empty()) return named;
  named.missing = look_up(source, debug.fd(), unknown.addresses, budget, *names);
  return named;
}

FileNamer::Unknown FileNamer::unknown_of(
    const NamedFile& named, const Source& source,
    const std::map<std::uint64_t, std::uint64_t>& samples_by_offset) {
  Unknown unknown;
  for (const auto& [offset, samples] : samples_by_offset) {
    const auto address = named.address_of(offset);
    if (!address) continue;
    const NameTable::Entry* const entry = named.names->find(*address);
    const bool is_stale = entry != nullptr && entry->is_stale && source.fd >= 0;
    if (entry == nullptr || is_stale) {
      unknown.addresses.push_back(*address);
    } else if (!has_name(entry->source) && !entry->had_debug_file) {
      unknown.gaps.push_back(*address);
    }
  }
  return unknown;
}

void FileNamer::Unknown::add_gaps() {
  std::vector<std::uint64_t> all;
  std::ranges::merge(addresses, gaps, std::back_inserter(all));
  addresses = std::move(all);
  gaps.clear();
}

std::string FileNamer::key_of_names(const std::string& identity, NameAudience audience) const {
  if (audience == NameAudience::kOthers || !with_private_names_.contains(identity)) return identity;
  return identity + (audience == NameAudience::kRoot ? "-root" : "-owner");
}

const ElfSummary* FileNamer::find_summary(const FileKey& key) const {
  const auto known = summaries_->find(key);
  return known != summaries_->end() && known->second.elf ? &*known->second.elf : nullptr;
}

// Null: the file can't be read. The summary is kept, since the file may be closed later.
const ElfSummary* FileNamer::find_or_read(const MappedFile& file, SymbolBudgets& budgets) {
  const auto begin = std::chrono::steady_clock::now();
  if (const auto known = summaries_->find(file.key); known != summaries_->end()) {
    known->second.used_at = begin;
    if (known->second.elf) return &*known->second.elf;
  }
  if (!file.fd.valid()) return nullptr;
  SymbolBudget& budget = budgets.of(file.owner);
  const auto [entry, is_new] = summaries_->try_emplace(file.key);
  Summary& summary = entry->second;
  summary.used_at = begin;
  if (!is_new) {
    const bool has_time = file.owner == kRoot || budget.time.count() > 0;
    if (!summary.retry || summary.retry->has_ended() || !summary.retry->is_due(begin) ||
        !has_time) {
      return nullptr;
    }
    summary.retry->delay(begin);
  }
  const bool may_be_read_later = read_summary(file, summary);
  const auto now = std::chrono::steady_clock::now();
  if (file.owner != kRoot) budget.time -= now - begin;
  if (!may_be_read_later) {
    summary.retry.reset();
  } else if (!summary.retry) {
    summary.retry.emplace(now);
  }
  return summary.elf ? &*summary.elf : nullptr;
}

// Returns whether the parser may read the file later.
bool FileNamer::read_summary(const MappedFile& file, Summary& summary) {
  Result<ElfSummary> elf = parser_.read_elf_summary(file.fd.get());
  if (!elf) return is_temporary(elf.error());
  if (still_has_its_bytes(file)) summary.elf = std::move(*elf);
  return false;
}

NameSource FileNamer::look_up(const Source& source, int debug_fd,
                              const std::vector<std::uint64_t>& addresses, SymbolBudget& budget,
                              NameTable& names) {
  for (std::size_t done = 0; done < addresses.size(); done += kMaxNamedAddresses) {
    if (budget.kept_bytes == 0) break;
    const auto some =
        std::span(addresses).subspan(done, std::min(addresses.size() - done, kMaxNamedAddresses));
    looked_up_ += some.size();
    const auto found = parser_.find_code_names(source.fd, debug_fd, some, budget);
    if (!found) return reason_of(found.error());
    const std::size_t bytes = names.bytes();
    for (const AddressNames& one : *found) {
      // Later the budget may be enough.
      if (one.source != NameSource::kOverBudget) {
        names.set(one, is_from_symbols(one.source), debug_fd >= 0);
      }
    }
    if (source.owner == kRoot) continue;
    budget.kept_bytes -= std::min<std::uint64_t>(budget.kept_bytes, names.bytes() - bytes);
  }
  return NameSource::kOverBudget;
}

void FileNamer::add_lines(std::span<const HitFile* const> files, LineBudget& budget) {
  std::vector<Pending> pending;
  for (const HitFile* const hit : files) add_pending(*hit, pending);
  std::ranges::stable_sort(pending, std::greater(), [](const Pending& one) {
    return std::pair(one.payer == kRoot, one.samples);
  });
  std::set<std::uint32_t> users;
  for (const Pending& one : pending) {
    if (one.payer != kRoot) users.insert(one.payer);
  }
  budget.set_one_alone(users.size() == 1);
  for (Pending& one : pending) add_lines(one, budget);
  if (!budget.keeps_rest()) return;
  budget.share_rest();
  for (Pending& one : pending) add_lines(one, budget);
}

void FileNamer::add_lines(Pending& pending, LineBudget& budget) {
  // Those that others paid for are answered.
  std::erase_if(pending.addresses, [&](std::uint64_t address) {
    return !pending.names->find(address)->may_have_lines;
  });
  const MappedFile& file = *pending.hit->file;
  if (pending.addresses.empty() || !still_has_its_bytes(file)) return;
  const std::chrono::nanoseconds left = budget.left_for(pending.payer);
  std::chrono::nanoseconds time = left;
  DebugFileFinder::Found debug;
  // Without time there will be no lines.
  if (left > std::chrono::nanoseconds(0)) {
    debug = debug_files_.find(
        {.fd = file.fd.get(),
         .identity = pending.identity,
         .query = query_of(*pending.elf, file.path, file.owner, audience_of(*pending.hit)),
         .processes = pending.hit->processes},
        time);
  }
  if (time < left) budget.spend(pending.payer, left - time);
  // A private one that is there since the file was named adds nothing to the names for all.
  const bool is_usable = !debug.is_private || pending.key != pending.identity;
  lines_.add_lines({.fd = file.fd.get(),
                    .debug_fd = is_usable ? debug.fd() : -1,
                    .identity = pending.key,
                    .payer = pending.payer,
                    .samples = pending.samples},
                   pending.addresses, *pending.names, budget);
}

void FileNamer::add_pending(const HitFile& hit, std::vector<Pending>& pending) {
  const bool is_usable = hit.file->fd.valid() && may_be_read(hit);
  const ElfSummary* const elf = is_usable ? find_summary(hit.file->key) : nullptr;
  if (elf == nullptr) return;
  const std::string identity = file_identity(*hit.file, *elf);
  const std::string key = key_of_names(identity, audience_of(hit));
  NameTable& names = cache_.names_of(key);
  for (const auto& [payer, hits] : hit.hits_by_payer) {
    std::vector<std::pair<std::uint64_t, std::uint64_t>> wanted;  // samples, address
    std::uint64_t all_samples = 0;
    for (const auto& [offset, samples] : hits.samples_by_offset) {
      const Result<std::uint64_t> address = vaddr_of_offset(*elf, offset);
      const NameTable::Entry* const entry = address ? names.find(*address) : nullptr;
      if (entry == nullptr || !entry->may_have_lines) continue;
      wanted.emplace_back(samples, *address);
      all_samples += samples;
    }
    if (wanted.empty()) continue;
    std::ranges::sort(wanted, std::greater());
    // One sample may hit all of them.
    Pending& one = pending.emplace_back(Pending{.hit = &hit,
                                                .elf = elf,
                                                .identity = identity,
                                                .key = key,
                                                .names = &names,
                                                .payer = payer});
    one.samples = std::min(all_samples, hits.samples);
    for (const auto& [samples, address] : wanted) one.addresses.push_back(address);
  }
}

void FileNamer::trim(NameCache::Clock::time_point now) {
  cache_.trim(now);
  if (debug_files_.have_changed()) cache_.mark_stale();
  debug_files_.trim(now);
  lines_.trim(now);
  summaries_.erase_if(
      [now](const auto& entry) { return now - entry.second.used_at > NameCache::kUnused; });
  if (summaries_->size() > kMaxSummaries) summaries_.clear();
  if (with_private_names_.size() > kMaxWithPrivateNames) with_private_names_.clear();
}

}  // namespace profd
