// Opens the files of mappings on threads of its own: the io thread submits places and later takes
// the opened files.
//
// An open through /proc/PID/map_files takes the lock of the process's memory, which the process can
// hold for half a second and more (fork or munmap of much memory). Nothing interrupts such a call.
// A call that hangs keeps its thread, and others continue on another one: there is one thread, and
// a further one only while all hang. The calls of one user other than root use one thread at a
// time, those of all such users at most kMaxThreadsOfUsers.

#pragma once

#include <chrono>
#include <cstdint>
#include <functional>
#include <memory>
#include <vector>

#include "collectors/files/mapped_file.h"
#include "collectors/files/open_mapped_file.h"
#include "formats/base/result.h"

namespace profd {

// Not thread safe: one thread owns it.
class FileOpener {
 public:
  static constexpr std::size_t kMaxThreads = 16;
  static constexpr std::size_t kMaxThreadsOfUsers = 12;
  static constexpr std::size_t kMaxQueued = 4096;
  static constexpr std::size_t kMaxQueuedOfUsers = kMaxQueued / 2;
  static constexpr std::size_t kMaxQueuedOfUser = kMaxQueued / 8;
  // A call that takes longer hangs. An open takes 20 us.
  static constexpr std::chrono::milliseconds kHangsAfter{10};

  // May block; called on the threads.
  using Open = std::function<MappedFile(const MappingPlace&)>;

  explicit FileOpener(Open open);
  FileOpener(const FileOpener&) = delete;
  FileOpener& operator=(const FileOpener&) = delete;
  // Does not wait: threads end when their calls return.
  ~FileOpener();

  // `uid` is the user who can make the call block. False: the queue has no room.
  [[nodiscard]] bool submit(std::uint32_t uid, MappingPlace place);

  // The files that were opened, or not opened for a reason, since the last call. To be called at
  // least once in a while: it also starts a thread where all others hang.
  [[nodiscard]] std::vector<MappedFile> take();

  // Readable while take() has files.
  [[nodiscard]] int wake_fd() const;

 private:
  class Shared;  // with the threads, which may live longer

  std::shared_ptr<Shared> shared_;
};

}  // namespace profd
