// What is left of the limits for one request.

#pragma once

#include <time.h>

#include <chrono>
#include <cstdint>

#include "collectors/symbolizer/dwarf_frames.h"

namespace profd::symbolizer {

// Asks for the time seldom enough that a step costs nothing. Once spent, it stays spent.
class DwarfBudget {
 public:
  DwarfBudget(std::chrono::nanoseconds cpu_time, std::uint64_t entries)
      : end_(cpu_time_now() + cpu_time), entries_(entries) {}

  // Counts one debugging entry. False once a limit is reached.
  bool take_entry() {
    if (entries_ == 0) return end(DwarfLoss::kEntries);
    --entries_;
    return take_step();
  }
  // Counts a small step of work, such as one address range.
  bool take_step() { return ++steps_ % kStepsBetweenChecks != 0 ? !is_spent() : check_time(); }
  // Counts bytes of entries: libdw searches them for an attribute.
  bool take_bytes(std::uint64_t bytes) {
    bytes_ += bytes;
    if (bytes_ < kBytesBetweenChecks) return !is_spent();
    bytes_ = 0;
    return check_time();
  }
  // For work that costs much.
  bool check_time() { return cpu_time_now() < end_ ? !is_spent() : end(DwarfLoss::kCpuTime); }

  [[nodiscard]] bool is_spent() const { return loss_ != DwarfLoss::kNone; }
  [[nodiscard]] DwarfLoss loss() const { return loss_; }  // kNone: not spent

 private:
  static constexpr std::uint64_t kStepsBetweenChecks = 1024;
  static constexpr std::uint64_t kBytesBetweenChecks = std::uint64_t{1} << 20;

  static std::chrono::nanoseconds cpu_time_now() {
    timespec time{};
    ::clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &time);
    return std::chrono::seconds(time.tv_sec) + std::chrono::nanoseconds(time.tv_nsec);
  }
  bool end(DwarfLoss loss) {
    if (!is_spent()) loss_ = loss;
    return false;
  }

  std::chrono::nanoseconds end_;
  std::uint64_t entries_;
  std::uint64_t steps_ = 0;
  std::uint64_t bytes_ = 0;
  DwarfLoss loss_ = DwarfLoss::kNone;
};

}  // namespace profd::symbolizer
