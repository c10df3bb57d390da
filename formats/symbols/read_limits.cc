#include "formats/symbols/read_limits.h"

#include <sys/stat.h>

namespace profd {
namespace {

// The limit for the bytes of a file by its disk space: a file system that compresses may store a
// file in fewer bytes, and a small file without a block of its own; a hole is no table.
constexpr std::uint64_t kMostCompression = 16;
constexpr std::uint64_t kBytesWithoutBlocks = std::uint64_t{1} << 20;

}  // namespace

ReadLimits::ReadLimits(int fd, SymbolBudget& budget, Clock::time_point started) {
  struct stat file {};
  if (::fstat(fd, &file) == 0 && file.st_uid == 0) return;
  const std::uint64_t disk_bytes = static_cast<std::uint64_t>(file.st_blocks) * 512;
  bytes_left_ = disk_bytes * kMostCompression + kBytesWithoutBlocks;
  budget_ = &budget;
  until_ = started + budget.time;
}

bool ReadLimits::take(std::uint64_t bytes) {
  if (budget_ == nullptr) return true;
  are_spent_ =
      are_spent_ || bytes > bytes_left_ || bytes > budget_->table_bytes || Clock::now() >= until_;
  if (are_spent_) return false;
  bytes_left_ -= bytes;
  budget_->table_bytes -= bytes;
  return true;
}

}  // namespace profd
