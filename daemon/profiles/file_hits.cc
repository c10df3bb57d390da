#include "daemon/profiles/file_hits.h"

#include <algorithm>

namespace profd {
namespace {

constexpr std::size_t kMaxProcesses = 128;  // those of root come on top
constexpr std::ptrdiff_t kMaxProcessesOfUser = 2;

constexpr std::uint64_t kHitNs = 1000;

std::uint64_t hits_of(const StackTable& table, const StackTable::Stack& stack) {
  const std::uint64_t ns = table.ns(stack);
  return ns == 0 ? stack.count : std::max<std::uint64_t>(ns / kHitNs, 1);
}

}  // namespace

// An image without a process record has no uid yet.
std::uint32_t uid_of(const ProcessSnapshot& process) {
  if (process.image->identified) return process.image->uid;
  return process.samples.owner ? process.samples.owner->uid : FileNamer::kUnknownUser;
}

const ProcessMapping* mapping_of_frame(const ProcessSnapshot& process,
                                       const StackTable::Stack& stack, const UserFrame& frame) {
  const auto ids = process.samples.stacks.mapping_ids(stack);
  if (frame.mapping >= ids.size()) return nullptr;
  const auto known = process.image->mappings.find(ids[frame.mapping]);
  return known == process.image->mappings.end() ? nullptr : &known->second;
}

std::uint64_t offset_of(const ProcessMapping& mapping, const UserFrame& frame, PcKind kind) {
  return code_address(frame, kind) - mapping.start + mapping.file_offset;
}

void FileHits::add(const ProcessSnapshot& process) {
  const Owned owned{.process = process, .payer = names_.payer_of(uid_of(process))};
  const StackTable& table = process.samples.stacks;
  of_process_.clear();
  for (const StackTable::Stack& stack : table.stacks()) {
    hits_.clear();
    const auto words = table.user_frames(stack);
    for (std::size_t i = 0; i < words.size(); ++i) {
      if (InterpretedFrame::is(words[i])) continue;
      const UserFrame frame = UserFrame::from_word(words[i]);
      const ProcessMapping* const mapping = mapping_of_frame(process, stack, frame);
      HitFile* const file = mapping == nullptr ? nullptr : file_of(owned, *mapping);
      if (file == nullptr) continue;
      hits_.emplace_back(file, offset_of(*mapping, frame, kind_of_frame(words, i)));
    }
    count(hits_of(table, stack), owned.payer);
  }
}

HitFile* FileHits::file_of(const Owned& owned, const ProcessMapping& mapping) {
  if (mapping.kind == PROFD_MAPPING_VDSO) return &vdso_;
  if (mapping.kind != PROFD_MAPPING_FILE || !mapping.file) return nullptr;
  HitFile& hit = files_[mapping.file_key];
  if (!hit.file || !hit.file->fd.valid()) hit.file = mapping.file;
  if (of_process_.insert(&hit).second) add_process(owned, mapping, hit);
  return &hit;
}

// Some are enough: their root has the file's debug file. A user can hide it from his own processes,
// so two of each user are enough.
void FileHits::add_process(const Owned& owned, const ProcessMapping& mapping, HitFile& hit) {
  hit.users.insert(uid_of(owned.process));
  auto& known = hit.processes;
  const auto& [process, payer] = owned;
  if (known.size() >= kMaxProcesses && payer != 0) return;
  if (std::ranges::count(known, payer, &HitProcess::payer) >= kMaxProcessesOfUser) return;
  known.push_back({.tgid = process.key.tgid, .payer = payer, .own_path = mapping.own_path});
}

void FileHits::count(std::uint64_t samples, std::uint32_t payer) {
  std::ranges::sort(hits_);
  hits_.erase(std::unique(hits_.begin(), hits_.end()), hits_.end());
  const HitFile* latest = nullptr;
  for (const auto& [file, offset] : hits_) {
    UserHits& of_payer = file->hits_by_payer[payer];
    if (file != latest) of_payer.samples += samples;
    latest = file;
    file->samples_by_offset[offset] += samples;
    of_payer.samples_by_offset[offset] += samples;
  }
}

}  // namespace profd
