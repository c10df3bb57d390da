// Closes files on a thread of its own. The last close of a deleted file frees its blocks: 6 s for
// one of 1 GB in 122,000 extents, as any user can make it and then unlink it. Nothing interrupts
// such a call, so no thread that others wait for makes it.
//
// A file that takes long delays the close of the ones behind it, and nothing else. The owner of a
// table of files keeps a file that it could release while has_room() is false, so what the table's
// limits of descriptors allow is all that waits. Thread safe.

#pragma once

#include <cstddef>
#include <memory>
#include <thread>
#include <utility>

#include "formats/base/unique_fd.h"

namespace profd {

class FileCloser {
 public:
  static constexpr std::size_t kMaxWaiting = 1024;

  FileCloser();
  FileCloser(const FileCloser&) = delete;
  FileCloser& operator=(const FileCloser&) = delete;
  // Waits until all files are closed.
  ~FileCloser();

  // Releases `file` on the thread. With the last reference, the file is closed there.
  void close(std::shared_ptr<const void> file) { close(queue_, std::move(file)); }
  void close(UniqueFd fd) {
    if (fd.valid()) close(std::make_shared<const UniqueFd>(std::move(fd)));
  }

  // The same file, whose last reference is released on the thread, also where another thread drops
  // it. After the end of *this, it is released where it is dropped.
  template <class File>
  [[nodiscard]] std::shared_ptr<const File> closed_here(std::shared_ptr<const File> file) const {
    const File* const known = file.get();
    return std::shared_ptr<const File>(
        known, [queue = queue_, file = std::move(file)](const File*) mutable {
          close(queue, std::move(file));
        });
  }

  // The files that are not closed yet.
  [[nodiscard]] std::size_t waiting() const;
  [[nodiscard]] bool has_room() const { return waiting() < kMaxWaiting; }

 private:
  class Queue;  // files may live longer than *this
  static void close(const std::shared_ptr<Queue>& queue, std::shared_ptr<const void> file);

  std::shared_ptr<Queue> queue_;
  std::jthread thread_;
};

}  // namespace profd
