// The memory that an instrumented app writes its records into (app/wire.h), as its reader sees it.
//
// The app is hostile: it may change any byte at any time. So the file is taken only with the seals
// that keep its size; the records are copied by pread before anybody looks at them; the table of
// slots alone is mapped, each word of it read once and then checked, and our own place in each
// buffer is kept here. A lie costs the app its own records.
//
// Used in the process that follows the app, and nowhere else.

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

namespace profd::xray {

// Whole records of one thread, each piece behind the one before.
struct LivePiece {
  std::int32_t thread = 0;     // ours, from 1 in the order in which threads are met
  bool begins_buffer = false;  // and so with a preamble
  std::uint64_t lost = 0;      // records that the thread dropped before
  bool gap = false;            // something before is missing that nobody counted
  std::string_view records;
};

class LiveRegion {
 public:
  static constexpr std::uint32_t kMaxSlots = 2048;
  static constexpr std::uint32_t kMaxSlotBytes = std::uint32_t{1} << 17;
  static constexpr std::size_t kMaxThreads = std::size_t{1} << 16;

  // Of what an app sent as its memory. kMalformed says what is wrong with it.
  static Result<LiveRegion> open(UniqueFd memfd, std::uint32_t session);

  using Take = std::function<void(const LivePiece& piece)>;

  // Hands over what is new, and gives back what has been read. An error: the table makes no sense;
  // what of it does is handed over first.
  Result<std::uint64_t> drain(const Take& take) { return drain(take, false); }
  // The last time, when nobody writes any more: also what comes behind something missing.
  Result<std::uint64_t> finish(const Take& take) { return drain(take, true); }

  [[nodiscard]] profd_xray_clock clock() const { return clock_; }
  // Records that the app says it could not write.
  [[nodiscard]] std::uint64_t dropped() const;
  [[nodiscard]] std::size_t threads() const { return threads_.size(); }
  [[nodiscard]] std::uint64_t refused_buffers() const { return refused_buffers_; }

 private:
  struct Unmap {
    std::size_t bytes = 0;
    void operator()(profd_xray_region* memory) const;
  };
  // A slot as it was at one moment.
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
    std::uint64_t sequence = 0;  // of the buffer to read on
    std::uint64_t read = 0;      // bytes of it
  };

  LiveRegion(UniqueFd memfd, std::unique_ptr<profd_xray_region, Unmap> table,
             std::uint32_t session);

  Result<std::uint64_t> drain(const Take& take, bool is_last);
  Result<void> look_at_slots();
  Thread* thread_of(std::uint64_t number);
  Result<std::uint64_t> read(const Seen& seen, Thread& thread, bool gap, const Take& take);
  void give_back(const Seen& seen);
  [[nodiscard]] profd_xray_slot* slots() const;

  UniqueFd memfd_;
  std::unique_ptr<profd_xray_region, Unmap> table_;
  std::uint32_t session_;
  std::uint32_t slot_count_;
  std::uint32_t slot_bytes_;
  profd_xray_clock clock_;
  std::map<std::uint64_t, Thread> threads_;
  std::uint64_t refused_buffers_ = 0;  // of threads beyond the limit
  std::vector<Seen> seen_;
  std::string buffer_;
};

}  // namespace profd::xray
