// The files that sampled processes have mapped. Each is opened once, under the kernel's key of it.
//
// A file is opened through /proc/PID/map_files/START-END, which names exactly the mapped file, also
// when it is deleted, on an overlay or in another mount namespace. When the process has exited, the
// file is opened by the dentry names of the record, if the file there still has the key
// (open_mapped_file.h). The opens run on other threads (file_opener.h), so a file is known before
// it is open.
//
// Processes that map files are not privileged, so a failed open is repeated at most once a second,
// and files, descriptors and memory are limited, for each owner or user too. The caller repeats an
// open that may succeed later (MappedFile::may_open_later). Owned by the io thread; a MappedFile is
// immutable and may go to the worker.

#pragma once

#include <chrono>
#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <vector>

#include "collectors/bpf/sample.h"
#include "collectors/files/file_closer.h"
#include "collectors/files/file_opener.h"
#include "collectors/files/mapped_file.h"
#include "collectors/files/process_users.h"
#include "collectors/host/uid_owners.h"

namespace profd {

class MappedFiles {
 public:
  using Clock = std::chrono::steady_clock;

  // Opens in a second: of all processes, of those of users other than root together, of those of
  // one such user, and of one process. An open takes about 20 us of the io thread.
  static constexpr std::size_t kMaxNew = 4096;
  static constexpr std::size_t kMaxNewOfUsers = kMaxNew / 2;
  static constexpr std::size_t kMaxNewOfUser = kMaxNew / 8;
  static constexpr std::size_t kMaxNewOfProcess = 512;

  // Files of all processes, of those of users other than root together, and of those of one such
  // user. A file with a long path counts as several: as one more for each kPathBytes.
  static constexpr std::size_t kPathBytes = 512;
  static constexpr std::size_t kMaxFiles = 65'536;
  static constexpr std::size_t kMaxFilesOfUsers = kMaxFiles / 2;
  static constexpr std::size_t kMaxFilesOfUser = kMaxFiles / 8;

  // Half of the descriptors are used at most: a quarter for the files of users other than root, and
  // a sixteenth for those of one of them. `open` is open_mapped_file(), or what takes its place in
  // tests.
  explicit MappedFiles(std::size_t descriptor_limit = soft_descriptor_limit(),
                       FileOpener::Open open = &open_mapped_file);

  // The file of a mapping, from the table, or one that is being opened (MappedFile::is_opening).
  // Null for a mapping without a file.
  std::shared_ptr<const MappedFile> find_or_open(const MappingView& mapping,
                                                 Clock::time_point now = Clock::now());

  // The files whose open has ended since the last call: they are in the table now, in the place of
  // those that were being opened.
  std::vector<std::shared_ptr<const MappedFile>> take_opened();

  // Readable while take_opened() has files.
  [[nodiscard]] int wake_fd() const { return opener_.wake_fd(); }

  // The number of opens so far, and of those that have ended.
  [[nodiscard]] std::uint64_t submitted() const { return submitted_; }
  [[nodiscard]] std::uint64_t ended() const { return ended_; }

  // To be called before the first mapping of a process: its uid as it was sampled.
  void add_process(const ProcessKey& process, std::uint32_t uid);

  // Whose the process is (uid_owners.h). Of one that was not added, the user is looked up: root
  // where it has ended or is not dumpable.
  [[nodiscard]] std::uint32_t user_of(const ProcessKey& process);

  // Null for a file that is not in the table.
  [[nodiscard]] std::shared_ptr<const MappedFile> find(const FileKey& key) const;

  // Forgets the files that nothing else refers to, and has them closed on another thread
  // (file_closer.h). While too many wait to be closed, further ones are kept.
  void release_unused();

  // The files that wait to be closed.
  [[nodiscard]] std::size_t closing() const { return closer_.waiting(); }

  [[nodiscard]] std::size_t size() const { return files_.size(); }

 private:
  struct Entry {
    std::shared_ptr<const MappedFile> file;
    Clock::time_point opened_at;  // when the open was submitted
    std::uint32_t uid = 0;        // of the process that mapped it first
    std::uint32_t charged = 0;    // whose the file is: for its descriptor
    std::size_t counted = 0;      // as how many files it counts
  };
  // The opens since `began`.
  struct Second {
    Clock::time_point began{};
    std::size_t opens = 0;
    std::size_t of_users = 0;
    std::map<std::uint32_t, std::size_t> by_process{};
    std::map<std::uint32_t, std::size_t> by_user{};  // not of root
  };
  static std::size_t soft_descriptor_limit();
  [[nodiscard]] bool has_room_for(std::uint32_t uid, std::size_t files) const;
  void charge_descriptor(MappedFile& file, Entry& entry);
  void refund_descriptor(const Entry& entry);
  void count(Entry& entry, std::size_t files);
  [[nodiscard]] bool may_open(std::uint32_t tgid, std::uint32_t uid, Clock::time_point now);
  void count_open(std::uint32_t tgid, std::uint32_t uid);

  FileCloser closer_;
  FileOpener opener_;
  UidOwners owners_;
  ProcessUsers users_;
  std::size_t descriptor_limit_;
  std::size_t held_ = 0;  // descriptors
  std::size_t held_of_users_ = 0;
  std::uint64_t submitted_ = 0;
  std::uint64_t ended_ = 0;
  Second second_;
  std::map<std::uint32_t, std::size_t> held_by_owner_;
  std::size_t counted_ = 0;                             // files
  std::map<std::uint32_t, std::size_t> files_of_user_;  // not of root
  std::size_t files_of_users_ = 0;
  std::map<FileKey, Entry> files_;
};

}  // namespace profd
