// The reader's side of the memory into which an instrumented app writes its records (app/wire.h).
//
// The app may be hostile and change any byte at any time. So the memfd must have the seals that fix
// its size, records are copied with pread() before they are decoded, only the table of slots is
// mapped, each of its words is read once and then checked, and the reading position in each buffer
// is kept here. An app that writes wrong values loses its own records only.
//
// Used in the follower only.

#pragma once

#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "collectors/xray/app/wire.h"
#include "formats/base/result.h"
#include "formats/base/unique_fd.h"
#include "formats/xray/fdr_format.h"

namespace profd::xray {

// Whole records of one thread, in the order in which it wrote them.
struct LiveRecords {
  std::int32_t thread = 0;     // a number that profd assigns, from 1 on
  bool begins_buffer = false;  // `bytes` begin with a preamble
  std::uint64_t lost = 0;      // records that the thread dropped before these
  bool gap = false;            // an unknown number of records before these is missing
  std::string_view bytes;
};

class LiveRegion {
 public:
  static constexpr std::uint32_t kMaxSlots = 2048;
  static constexpr std::uint32_t kMaxSlotBytes = std::uint32_t{1} << 17;
  static constexpr std::size_t kMaxThreads = std::size_t{1} << 16;
  // Each buffer begins with four metadata records (app/recorder.c).
  static constexpr std::size_t kPreambleBytes = 4 * kMetadataBytes;

  // Opens the memory that an app sent. kMalformed: it is invalid.
  static Result<LiveRegion> open(UniqueFd memfd, std::uint32_t session);

  using Take = std::function<void(const LiveRecords& records)>;

  // Calls `take` for all new records, and frees the slots that are full and read. Returns the
  // number of bytes. kMalformed: a slot is invalid; the records of the valid ones are taken before.
  Result<std::uint64_t> drain(const Take& take) { return drain(take, false); }
  // The last drain(), when the app writes no more. Takes buffers behind a missing buffer, too.
  Result<std::uint64_t> finish(const Take& take) { return drain(take, true); }

  [[nodiscard]] profd_xray_clock clock() const { return clock_; }
  // Records that the app could not write, by its own count.
  [[nodiscard]] std::uint64_t dropped() const;
  [[nodiscard]] std::size_t threads() const { return threads_.size(); }
  // Records of threads beyond kMaxThreads, which were not read.
  [[nodiscard]] std::uint64_t refused_records() const { return refused_records_; }

 private:
  struct Unmap {
    std::size_t bytes = 0;
    void operator()(profd_xray_region* memory) const;
  };
  // A copy of a slot.
  struct Seen {
    std::uint64_t thread = 0;
    std::uint64_t sequence = 0;
    std::uint64_t bytes = 0;
    std::uint64_t dropped = 0;
    std::uint64_t state = 0;
    std::uint32_t slot = 0;
  };
  struct Thread {
    std::int32_t number = 0;
    std::uint64_t sequence = 0;  // of the buffer to read next
    std::uint64_t read = 0;      // bytes of that buffer that are read
  };

  LiveRegion(UniqueFd memfd, std::unique_ptr<profd_xray_region, Unmap> table,
             std::uint32_t session);

  Result<std::uint64_t> drain(const Take& take, bool is_last);
  Result<void> copy_slots();
  Thread* thread_of(std::uint64_t number);
  Result<std::uint64_t> read(const Seen& seen, Thread& thread, bool gap, const Take& take);
  void free_slot(const Seen& seen);
  [[nodiscard]] profd_xray_slot* slots() const;

  UniqueFd memfd_;
  std::unique_ptr<profd_xray_region, Unmap> table_;
  std::uint32_t session_;
  std::uint32_t slot_count_;
  std::uint32_t slot_bytes_;
  profd_xray_clock clock_;
  std::map<std::uint64_t, Thread> threads_;
  std::uint64_t refused_records_ = 0;
  std::vector<Seen> seen_;
  std::string buffer_;
};

}  // namespace profd::xray
