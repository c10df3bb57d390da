// The files that sampled processes have mapped. Each is opened once, under the kernel's key of it.
//
// A file is opened through /proc/PID/map_files/START-END, which names exactly the mapped file, also
// when it is deleted, on an overlay or in another mount namespace. When the process has exited, or
// the open takes too long, the file is opened by the dentry names of the record, if the file there
// still has the key (open_mapped_file.h). Processes that map files are not privileged, so a failed
// open is repeated at most once a second, and files and descriptors are limited, for each owner
// too. The caller repeats an open that may succeed later (MappedFile::may_open_later). Owned by the
// io thread; a MappedFile is immutable and may go to the worker.

#pragma once

#include <chrono>
#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <optional>

#include "collectors/bpf/sample.h"
#include "collectors/files/bounded_runner.h"
#include "collectors/files/mapped_file.h"
#include "collectors/files/open_mapped_file.h"

namespace profd {

class MappedFiles {
 public:
  using Clock = std::chrono::steady_clock;

  // New files in a second, of one process and of all: an open takes about 20 us of the io thread.
  static constexpr std::size_t kMaxNewOfProcess = 512;
  static constexpr std::size_t kMaxNew = 4096;

  // Opens in a second that may time out, each after BoundedRunner::kMaxWait.
  static constexpr std::size_t kMaxLate = 2;

  // open_by_mapping(), or what takes its place in tests.
  using Opener = std::function<MappedFile(const MappingPlace&)>;

  // Half of the descriptors are used at most, and a sixteenth for the files of one owner other than
  // root.
  explicit MappedFiles(std::size_t descriptor_limit = soft_descriptor_limit(), Opener opener = {});

  // The file of a mapping, from the table or opened now. Null for a mapping without a file.
  std::shared_ptr<const MappedFile> find_or_open(const MappingView& mapping,
                                                 Clock::time_point now = Clock::now());

  // Null for a file that is not in the table.
  [[nodiscard]] std::shared_ptr<const MappedFile> find(const FileKey& key) const;

  // Forgets, and so closes, the files that nothing else refers to.
  void release_unused();

  [[nodiscard]] std::size_t size() const { return files_.size(); }

 private:
  struct Entry {
    std::shared_ptr<const MappedFile> file;
    Clock::time_point opened_at;
  };
  static std::size_t soft_descriptor_limit();
  MappedFile open(const MappingView& mapping);
  std::optional<MappedFile> open_in_time(const MappingPlace& place);
  void charge_descriptor(MappedFile& file);
  void refund_descriptor(const MappedFile& file);
  [[nodiscard]] bool may_open(std::uint32_t tgid, Clock::time_point now);

  Opener opener_;
  BoundedRunner runner_;
  std::size_t descriptor_limit_;
  std::size_t held_ = 0;  // descriptors
  Clock::time_point second_began_;
  std::size_t opened_in_second_ = 0;
  std::size_t late_in_second_ = 0;
  std::map<std::uint32_t, std::size_t> opened_by_process_;
  std::map<std::uint32_t, std::size_t> held_by_owner_;
  std::map<FileKey, Entry> files_;
};

}  // namespace profd
