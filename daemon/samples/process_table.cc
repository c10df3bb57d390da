#include "daemon/samples/process_table.h"

#include <signal.h>

#include <algorithm>
#include <cerrno>
#include <string_view>
#include <utility>

#include "collectors/files/open_mapped_file.h"
#include "collectors/host/thread_priority.h"
#include "collectors/jit/code_memory.h"
#include "daemon/samples/hash_seed.h"

namespace profd {
namespace {

// A map that is larger than this and less full than that is made smaller.
constexpr std::size_t kWorthShrinking = 4096;
constexpr float kSparse = 0.25F;

bool pid_is_free(std::uint32_t pid) {
  return ::kill(static_cast<pid_t>(pid), 0) != 0 && errno == ESRCH;
}

constexpr std::uint64_t kRoot = 0;
// Images whose process record has not arrived share one owner, which is no uid.
constexpr std::uint64_t kUnidentified = std::uint64_t{1} << 32;

// Whether the kernel made the file for shared memory. It has the same path for all processes.
bool is_in_no_directory(const MappedFile& file) {
  const std::string& path = file.path;
  return file.deleted && (path.starts_with("/memfd:") || path.starts_with("/SYSV") ||
                          path == "/anon_hugepage" || path == "/dev/zero");
}

// A process can detach the mount of a file, and then the file has no name there.
std::shared_ptr<const std::string> own_path(const MappingView& view, const MappedFile* file) {
  if (file == nullptr || file->process == view.process) return nullptr;
  if (view.names.empty() && is_in_no_directory(*file)) return nullptr;
  static const auto unnamed = std::make_shared<const std::string>("unnamed-file");
  if (view.names.empty() || view.names_cut) return unnamed;
  if (are_names_of(view.names, file->path)) return nullptr;
  return std::make_shared<const std::string>(path_from_names(view.names));
}

ProcessMapping mapping_of(const MappingView& view, std::shared_ptr<const MappedFile> file) {
  std::shared_ptr<const std::string> path = own_path(view, file.get());
  return {.start = view.start,
          .end = view.end,
          .file_offset = view.file_offset,
          .time_ns = view.time_ns,
          .kind = view.kind,
          .file_key = view.file,
          .file = std::move(file),
          .own_path = std::move(path)};
}

std::size_t units_of(const ProcessMapping& mapping) {
  constexpr std::size_t kUnitBytes = 100;
  return ProcessTable::kUnitsOfMapping +
         (mapping.own_path ? mapping.own_path->size() / kUnitBytes : 0);
}

bool opened(const ProcessMapping& mapping) { return mapping.file && mapping.file->fd.valid(); }

}  // namespace

std::size_t ProcessKeyHash::operator()(const ProcessKey& key) const noexcept {
  SeededHash hash(daemon_hash_seed());
  hash.add(key.start_ns);
  hash.add(std::uint64_t{key.tgid} << 32 | key.exec_id);
  return hash.value();
}

std::string_view path_of(const ProcessMapping& mapping) {
  if (mapping.own_path) return *mapping.own_path;
  return mapping.file ? std::string_view(mapping.file->path) : std::string_view();
}

bool may_be_jit_code(const ProcessMapping& mapping) {
  return may_be_jit_code(mapping.kind, mapping.file_key, path_of(mapping),
                         mapping.file && (mapping.file->deleted || mapping.file->is_opening));
}

void ForgottenImages::destroy() noexcept {
  const PriorityOfIoThread priority;  // the io thread allocated them
  images_ = {};
}

ProcessImage& ProcessTable::Entry::changeable() {
  if (is_shared) image = std::make_shared<ProcessImage>(*image);
  is_shared = false;
  return *image;
}

void ProcessTable::add(const MappingView& view, std::shared_ptr<const MappedFile> file) {
  Entry* entry = find_or_add(view.process, kUnidentified);
  if (entry == nullptr) return count_dropped(entry);
  const ProcessImage& image = *entry->image;
  const auto found = image.mappings.find(view.id);
  // A repeated record: the file may not have opened the first time.
  const bool is_known = found != image.mappings.end();
  if (is_known && (opened(found->second) || !file || file == found->second.file)) return;
  ProcessMapping mapping = mapping_of(view, std::move(file));
  const std::size_t before = is_known ? units_of(found->second) : 0;
  const std::size_t units = units_of(mapping);
  const bool has_place = is_known || image.mappings.size() < kMaxMappings;
  if (!has_place || (units > before && !has_room(entry->owner, units - before))) {
    return count_dropped(entry);
  }
  entry->changeable().mappings.insert_or_assign(view.id, std::move(mapping));
  discharge(*entry, before);
  charge(*entry, units);
}

void ProcessTable::count_dropped(const Entry* entry) {
  ++dropped_;
  if (refusals_ != nullptr && entry != nullptr && entry->image->identified) {
    refusals_->add(entry->image->uid, kDroppedMappings);
  }
}

// Most process records repeat what is known, and change no image.
void ProcessTable::add(const ProcessView& process) {
  Entry* entry = find_or_add(process.process, owners_.owner_of(process.uid));
  if (entry == nullptr) {
    ++dropped_;
    if (refusals_ != nullptr) refusals_->add(process.uid, kDroppedMappings);
    return;
  }
  if (process.time_ns < entry->comm_time_ns) return;
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

std::uint32_t ProcessTable::payer_of(const ProcessKey& key) const {
  const auto found = images_.find(key);
  if (found == images_.end() || found->second.owner >= kUnidentified) return 0;
  return static_cast<std::uint32_t>(found->second.owner);
}

std::shared_ptr<const ProcessImage> ProcessTable::share(const ProcessKey& key) {
  const auto found = images_.find(key);
  if (found == images_.end()) return nullptr;
  found->second.is_shared = true;
  return found->second.image;
}

// The last samples of a program may be read after the records of the next one of its process, so
// what was replaced stays until the next call.
ForgottenImages ProcessTable::forget_unless(const std::function<bool(const ProcessKey&)>& needed) {
  ForgottenImages forgotten;
  boost::unordered::erase_if(images_, [&](auto& known) {
    auto& [key, entry] = known;
    if (needed(key) || !(entry.is_replaced || pid_is_free(key.tgid))) return false;
    forgotten.add(entry.image);
    discharge(entry, entry.units);
    return true;
  });
  mark_replaced_programs();
  // erase_if() keeps the memory of the map itself.
  if (images_.bucket_count() > kWorthShrinking && images_.load_factor() < kSparse) {
    images_.rehash(0);
    units_of_owner_.rehash(0);
  }
  return forgotten;
}

void ProcessTable::mark_replaced_programs() {
  boost::unordered_flat_map<ProcessKey, std::uint32_t, ProcessKeyHash> latest;  // exec ids
  const auto process_of = [](const ProcessKey& key) {
    return ProcessKey{.tgid = key.tgid, .exec_id = 0, .start_ns = key.start_ns};
  };
  for (const auto& [key, entry] : images_) {
    std::uint32_t& exec_id = latest[process_of(key)];
    exec_id = std::max(exec_id, key.exec_id);
  }
  for (auto& [key, entry] : images_) entry.is_replaced = key.exec_id < latest.at(process_of(key));
}

bool ProcessTable::has_room(std::uint64_t owner, std::size_t units) const {
  if (units_ + units > kMaxUnits) return false;
  if (owner == kRoot) return true;
  const auto found = units_of_owner_.find(owner);
  const std::size_t of_owner = found == units_of_owner_.end() ? 0 : found->second;
  return units_of_users_ + units <= kMaxUnitsOfUsers && of_owner + units <= kMaxUnitsOfUser;
}

void ProcessTable::charge(Entry& entry, std::size_t units) {
  units_of_owner_[entry.owner] += units;  // first, since only this can fail
  entry.units += units;
  units_ += units;
  if (entry.owner != kRoot) units_of_users_ += units;
}

void ProcessTable::discharge(Entry& entry, std::size_t units) {
  if (units == 0) return;
  const auto found = units_of_owner_.find(entry.owner);
  found->second -= units;
  if (found->second == 0) units_of_owner_.erase(found);
  entry.units -= units;
  units_ -= units;
  if (entry.owner != kRoot) units_of_users_ -= units;
}

void ProcessTable::identify(Entry& entry, std::uint32_t uid) {
  if (entry.image->identified && entry.image->uid == uid) return;
  const std::uint64_t owner = owners_.owner_of(uid);
  if (owner != entry.owner) {
    const std::size_t units = entry.units;
    discharge(entry, units);
    entry.owner = owner;
    charge(entry, units);
  }
  ProcessImage& image = entry.changeable();
  image.identified = true;
  image.uid = uid;
}

ProcessTable::Entry* ProcessTable::find_or_add(const ProcessKey& key, std::uint64_t owner) {
  if (const auto found = images_.find(key); found != images_.end()) return &found->second;
  if (!has_room(owner, kUnitsOfImage)) return nullptr;
  Entry& entry = images_[key];
  entry.owner = owner;
  charge(entry, kUnitsOfImage);
  return &entry;
}

}  // namespace profd
