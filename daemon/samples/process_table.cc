#include "daemon/samples/process_table.h"

#include <signal.h>

#include <cerrno>
#include <string_view>
#include <utility>

#include <malloc.h>

#include "collectors/files/open_mapped_file.h"
#include "collectors/jit/code_memory.h"
#include "daemon/samples/hash_seed.h"

namespace profd {
namespace {

// A map that is larger than this and less full than that is made smaller.
constexpr std::size_t kWorthShrinking = 4096;
constexpr float kSparse = 0.25F;

// So many mappings of forgotten images are some hundred KiB.
constexpr std::size_t kWorthTrimming = 4096;

bool pid_is_free(std::uint32_t pid) {
  return ::kill(static_cast<pid_t>(pid), 0) != 0 && errno == ESRCH;
}

KnownPath known_path(const MappingView& view, const MappedFile* file) {
  if (file == nullptr || file->process == view.process) return KnownPath::kWhole;
  // A process can detach the mount of a file, and then the file has no name there.
  if (view.names.empty()) return KnownPath::kNothing;
  if (are_names_of(view.names, file->path)) return KnownPath::kWhole;
  const std::string_view name = view.names.substr(0, view.names.find('\0'));
  return name == path_of(*file, KnownPath::kName) ? KnownPath::kName : KnownPath::kNothing;
}

ProcessMapping mapping_of(const MappingView& view, std::shared_ptr<const MappedFile> file) {
  const KnownPath known = known_path(view, file.get());
  return {.start = view.start,
          .end = view.end,
          .file_offset = view.file_offset,
          .time_ns = view.time_ns,
          .kind = view.kind,
          .file_key = view.file,
          .file = std::move(file),
          .known_path = known};
}

// Images whose process record has not arrived share one owner, which is no uid.
std::uint64_t owner_of(const ProcessImage& image) {
  constexpr std::uint64_t kUnidentified = std::uint64_t{1} << 32;
  return image.identified ? image.uid : kUnidentified;
}

bool opened(const ProcessMapping& mapping) { return mapping.file && mapping.file->fd.valid(); }

}  // namespace

std::size_t ProcessKeyHash::operator()(const ProcessKey& key) const noexcept {
  SeededHash hash(daemon_hash_seed());
  hash.add(key.start_ns);
  hash.add(std::uint64_t{key.tgid} << 32 | key.exec_id);
  return hash.value();
}

bool may_be_jit_code(const ProcessMapping& mapping) {
  return may_be_jit_code(mapping.kind, mapping.file_key,
                         mapping.file ? std::string_view(mapping.file->path) : std::string_view(),
                         mapping.file && (mapping.file->deleted || mapping.file->is_opening));
}

// The allocator keeps what is freed until it is asked to return it.
void ForgottenImages::destroy() noexcept {
  std::size_t freed = 0;
  for (const auto& image : images_) freed += 1 + image->mappings.size();
  images_ = {};
  if (freed >= kWorthTrimming) ::malloc_trim(0);
}

ProcessImage& ProcessTable::Entry::changeable() {
  if (is_shared) image = std::make_shared<ProcessImage>(*image);
  is_shared = false;
  return *image;
}

void ProcessTable::add(const MappingView& mapping, std::shared_ptr<const MappedFile> file) {
  Entry* entry = find_or_add(mapping.process);
  if (entry == nullptr) return;
  const ProcessImage& image = *entry->image;
  if (const auto found = image.mappings.find(mapping.id); found != image.mappings.end()) {
    // A repeated record: the file may not have opened the first time.
    if (opened(found->second) || !file || file == found->second.file) return;
    ProcessMapping& changed = entry->changeable().mappings.at(mapping.id);
    changed.known_path = known_path(mapping, file.get());
    changed.file = std::move(file);
  } else if (has_room_for_mapping(image)) {
    std::size_t& of_owner = mappings_of_owner_[owner_of(image)];
    entry->changeable().mappings.emplace(mapping.id, mapping_of(mapping, std::move(file)));
    ++of_owner;
    ++mappings_;
  } else {
    count_dropped(image);
  }
}

void ProcessTable::count_dropped(const ProcessImage& image) {
  ++dropped_;
  if (refusals_ != nullptr && image.identified) refusals_->add(image.uid, kDroppedMappings);
}

// Most process records repeat what is known, and change no image.
void ProcessTable::add(const ProcessView& process) {
  Entry* entry = find_or_add(process.process);
  if (entry == nullptr || process.time_ns < entry->comm_time_ns) return;
  entry->comm_time_ns = process.time_ns;
  identify(*entry, process.uid);
  std::string cgroup = path_from_names(process.cgroup);
  const ProcessImage& known = *entry->image;
  if (known.comm == process.comm && known.cgroup == cgroup &&
      known.kernel_thread == process.kernel_thread && known.executable == process.executable) {
    return;
  }
  ProcessImage& image = entry->changeable();
  image.comm = process.comm;
  image.cgroup = std::move(cgroup);
  image.kernel_thread = process.kernel_thread;
  image.executable = process.executable;
}

const ProcessImage* ProcessTable::find(const ProcessKey& key) const {
  const auto found = images_.find(key);
  return found == images_.end() ? nullptr : found->second.image.get();
}

std::shared_ptr<const ProcessImage> ProcessTable::share(const ProcessKey& key) {
  const auto found = images_.find(key);
  if (found == images_.end()) return nullptr;
  found->second.is_shared = true;
  return found->second.image;
}

ForgottenImages ProcessTable::forget_unless(const std::function<bool(const ProcessKey&)>& needed) {
  ForgottenImages forgotten;
  boost::unordered::erase_if(images_, [&](const auto& entry) {
    if (needed(entry.first) || !pid_is_free(entry.first.tgid)) return false;
    forgotten.add(entry.second.image);
    discharge(*entry.second.image);
    return true;
  });
  // erase_if() keeps the memory of the map itself.
  if (images_.bucket_count() > kWorthShrinking && images_.load_factor() < kSparse) {
    images_.rehash(0);
    mappings_of_owner_.rehash(0);
  }
  return forgotten;
}

bool ProcessTable::has_room_for_mapping(const ProcessImage& image) const {
  if (image.mappings.size() >= kMaxMappings || mappings_ >= kMaxMappingsInAll) return false;
  const std::uint64_t owner = owner_of(image);
  if (owner == 0) return true;
  const auto found = mappings_of_owner_.find(owner);
  return found == mappings_of_owner_.end() || found->second < kMaxMappingsOfUid;
}

void ProcessTable::identify(Entry& entry, std::uint32_t uid) {
  if (entry.image->identified && entry.image->uid == uid) return;
  ProcessImage& image = entry.changeable();
  if (const std::size_t count = image.mappings.size(); count != 0) {
    std::size_t& of_uid = mappings_of_owner_[uid];  // first, since only this can fail
    mappings_of_owner_.find(owner_of(image))->second -= count;
    of_uid += count;
  }
  image.identified = true;
  image.uid = uid;
}

void ProcessTable::discharge(const ProcessImage& image) {
  if (image.mappings.empty()) return;
  mappings_ -= image.mappings.size();
  const auto found = mappings_of_owner_.find(owner_of(image));
  found->second -= image.mappings.size();
  if (found->second == 0) mappings_of_owner_.erase(found);
}

ProcessTable::Entry* ProcessTable::find_or_add(const ProcessKey& key) {
  if (const auto found = images_.find(key); found != images_.end()) return &found->second;
  if (images_.size() >= kMaxImages) return nullptr;
  return &images_[key];
}

}  // namespace profd
