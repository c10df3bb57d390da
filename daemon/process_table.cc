#include "daemon/process_table.h"

#include <signal.h>

#include <cerrno>
#include <utility>

#include "daemon/seeded_hash.h"

namespace profd {
namespace {

bool pid_is_free(std::uint32_t pid) {
  return ::kill(static_cast<pid_t>(pid), 0) != 0 && errno == ESRCH;
}

Mapping mapping_of(const MappingView& view, std::shared_ptr<const MappedFile> file) {
  return {.start = view.start,
          .limit = view.end,
          .file_offset = view.file_offset,
          .time_ns = view.time_ns,
          .kind = view.kind,
          .file_key = view.file,
          .file = std::move(file)};
}

bool opened(const Mapping& mapping) { return mapping.file && mapping.file->fd.valid(); }

}  // namespace

std::size_t ProcessKeyHash::operator()(const ProcessKey& key) const noexcept {
  SeededHash hash(daemon_hash_seed());
  hash.add(key.start_ns);
  hash.add(std::uint64_t{key.tgid} << 32 | key.exec_id);
  return hash.value();
}

void ProcessTable::add(const MappingView& mapping, std::shared_ptr<const MappedFile> file) {
  ProcessImage* image = find_or_add(mapping.process);
  if (image == nullptr) return;
  if (const auto found = image->mappings.find(mapping.id); found != image->mappings.end()) {
    // A repeat; the file may have been out of reach the first time.
    if (!opened(found->second) && file) found->second.file = std::move(file);
  } else if (image->mappings.size() < kMaxMappings) {
    image->mappings.emplace(mapping.id, mapping_of(mapping, std::move(file)));
  }
}

void ProcessTable::add(const ProcessView& process) {
  ProcessImage* image = find_or_add(process.process);
  if (image == nullptr || process.time_ns < image->comm_time_ns) return;
  image->comm = process.comm;
  image->comm_time_ns = process.time_ns;
  image->cgroup = path_from_names(process.cgroup);
  image->uid = process.uid;
  image->kernel_thread = process.kernel_thread;
  image->executable = process.executable;
}

const ProcessImage* ProcessTable::find(const ProcessKey& key) const {
  const auto found = images_.find(key);
  return found == images_.end() ? nullptr : &found->second;
}

void ProcessTable::forget_unless(const std::function<bool(const ProcessKey&)>& needed) {
  boost::unordered::erase_if(images_, [&](const auto& entry) {
    return !needed(entry.first) && pid_is_free(entry.first.tgid);
  });
}

ProcessImage* ProcessTable::find_or_add(const ProcessKey& key) {
  if (const auto found = images_.find(key); found != images_.end()) return &found->second;
  if (images_.size() >= kMaxImages) return nullptr;
  return &images_[key];
}

}  // namespace profd
