// The blocks that have not ended. Joins the sample that starts a block with the record of its end,
// and passes it on once for each session, with its value: SampleView::count and ::block.
//
// The two records come through two rings, and the first may wait for an unwind table, so an end
// waits for its start for kEndWaitNs. A session that ends, or a window's change of slots, cuts a
// block in two: the part until then is passed on as ongoing, the rest keeps the stack.
//
// One block for each thread: memory is that of the stacks. Users together have half of it, one an
// eighth. A block without room is counted, with its time where its end arrives. On the io thread;
// no call waits, and none takes longer than the blocks of a session do: 1 us each.

#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <span>
#include <vector>

#include "collectors/bpf/sample.h"
#include "collectors/off_cpu/block_ledger.h"
#include "collectors/off_cpu/ongoing_blocks.h"

namespace profd {

class OpenBlocks {
 public:
  static constexpr std::size_t kMaxBytes = std::size_t{64} << 20;
  static constexpr std::size_t kMaxBytesOfUsers = kMaxBytes / 2;
  static constexpr std::size_t kMaxBytesOfUser = kMaxBytes / 8;
  static constexpr std::size_t kMaxWaitingEnds = std::size_t{1} << 16;
  // A deferred stack waits for 2 s at most (deferred_unwinder.h).
  static constexpr std::uint64_t kEndWaitNs = 3'000'000'000;

  // Takes a sample with its value, for the sessions in its mask. Must not throw.
  using Deliver = std::function<void(const SampleView& sample)>;
  // Whose process it is (uid_owners.h).
  using UserOf = std::function<std::uint32_t(const ProcessKey& process)>;

  OpenBlocks(UserOf user_of, Deliver deliver);
  OpenBlocks(const OpenBlocks&) = delete;
  OpenBlocks& operator=(const OpenBlocks&) = delete;
  ~OpenBlocks();

  // From now on the blocks of the slot are kept, and nothing of them counts yet: for the kernel
  // side reports blocks before the session begins. Records of blocks that began earlier are of
  // another session that had the slot, unless the kernel lists them as open. `long_ns` is that of
  // the kernel side.
  void open(SessionSlot slot, std::uint64_t now_ns, std::uint64_t long_ns);
  // Blocks count from `start_ns` on, also those that began before.
  void begin(SessionSlot slot, std::uint64_t start_ns);
  // They count until `end_ns`, as ongoing if they go on then. Records may still arrive.
  void end(SessionSlot slot, std::uint64_t end_ns);
  [[nodiscard]] bool is_open(SessionSlot slot) const;

  // A sample whose block.id is not 0. Its bytes are copied.
  void on_start(const SampleView& sample) noexcept;
  void on_end(const BlockEndView& end) noexcept;
  // An ended one is delivered at once, an open one waits for its end. Of one that was chosen, only
  // the id counts: it shows at close() that the block is open.
  void on_whole(const WholeBlockView& block) noexcept;

  // To be called at each drain: counts ends and starts that have waited too long.
  void tick(std::uint64_t now_ns);

  // After end(): delivers the blocks that are open. `open_ids` are those that the kernel lists as
  // open; others have lost their end, and are counted. None: no list could be made, and all count
  // as open. Of a slot that has not begun, nothing is delivered.
  void close(SessionSlot slot, const std::optional<std::vector<std::uint64_t>>& open_ids);
  // Ends a window and begins the next one, `to`: a block that goes on is its from `now_ns` on, and
  // that of `from` until then, which counts at its end or when `from` is closed. Delivers nothing.
  void move(SessionSlot from, SessionSlot to, std::uint64_t now_ns);

  // For a session that goes on. `open_ids` are blocks of a list that the kernel began at `until_ns`
  // or later, so that each of them was open then; others, and blocks that have ended since, are
  // ignored. What the slot would have of them at that time: nothing of the slot changes. To be
  // called before the next record is read.
  [[nodiscard]] OngoingBlocks ongoing(SessionSlot slot, std::uint64_t until_ns,
                                      std::span<const std::uint64_t> open_ids) const;
  // Delivers the same, and counts the rest of these blocks alone from then on: so the parts of a
  // block are its whole. A part counts as a block. `open_ids` may be a part of the list.
  void deliver_ongoing(SessionSlot slot, std::uint64_t until_ns,
                       std::span<const std::uint64_t> open_ids);

  // The terms of user space of an open slot, or of one since close(), until the next open().
  [[nodiscard]] const BlockLedger& ledger(SessionSlot slot) const;
  // Whether a block of the process is open: then what is known of its code is needed.
  [[nodiscard]] bool has(const ProcessKey& process) const;
  [[nodiscard]] std::size_t size() const;
  [[nodiscard]] std::size_t bytes() const;

 private:
  struct Parts;
  std::unique_ptr<Parts> parts_;
};

}  // namespace profd
