// What the search for names may read of one file, and until when. A SymbolBudget limits the files
// that root does not own; a file of root is limited by its own size alone.

#pragma once

#include <chrono>
#include <cstddef>
#include <cstdint>

#include "formats/elf/code_file.h"
#include "formats/elf/elf_file.h"

namespace profd {

class ReadLimits {
 public:
  using Clock = std::chrono::steady_clock;

  // `fd` is borrowed for the call. The bytes are taken from `budget`, which must outlive the object
  // and may have several; the caller charges the time.
  ReadLimits(int fd, SymbolBudget& budget, Clock::time_point started);

  // False, and from then on always, where the limits do not allow to read that many bytes more.
  [[nodiscard]] bool take(std::uint64_t bytes);
  // The same for work without reads.
  [[nodiscard]] bool have_time() { return take(0); }
  [[nodiscard]] bool are_spent() const { return are_spent_; }
  [[nodiscard]] bool are_none() const { return budget_ == nullptr; }

 private:
  SymbolBudget* budget_ = nullptr;  // null: a file of root
  Clock::time_point until_ = Clock::time_point::max();
  std::uint64_t bytes_left_ = 0;  // of what the file can hold
  bool are_spent_ = false;
};

// A file whose reads are limited. Borrows both.
class LimitedFile {
 public:
  LimitedFile(const CodeFile& file, ReadLimits& limits) : file_(&file), limits_(&limits) {}

  [[nodiscard]] const CodeFile& elf() const { return *file_; }
  [[nodiscard]] ReadLimits& limits() const { return *limits_; }
  // False: the read failed or is short, or the limits are spent.
  [[nodiscard]] bool read(std::uint64_t offset, void* to, std::size_t bytes) const {
    return limits_->take(bytes) && elf::read_at(file_->fd(), offset, to, bytes);
  }

 private:
  const CodeFile* file_;
  ReadLimits* limits_;
};

}  // namespace profd
