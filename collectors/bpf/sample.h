// The types of a sample's way through user space: one view for each kind of record, and the
// interface of the stages that take them.
//
// A view borrows the record's bytes from the ring buffer and is valid during the call that passes
// it on. Its accessors cannot fail: record.h checks every size before it makes the view. Times are
// CLOCK_MONOTONIC nanoseconds.

#pragma once

#include <array>
#include <compare>
#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <string_view>

#include <string.h>

#include "bpf/block_abi.h"
#include "bpf/interpreter_abi.h"
#include "bpf/profd_abi.h"
#include "formats/base/address_range.h"
#include "formats/interpreters/code.h"

namespace profd {

struct MappedFile;

// Index of a session in the session mask of every sample, 0 to 31.
using SessionSlot = unsigned;

// Exact identity of a process image (see profd_process_key).
struct ProcessKey {
  std::uint32_t tgid = 0;
  std::uint32_t exec_id = 0;
  std::uint64_t start_ns = 0;

  friend auto operator<=>(const ProcessKey&, const ProcessKey&) = default;
};

// A file as the kernel sees it (see profd_file_key). Default: no file.
struct FileKey {
  std::uint64_t inode = 0;
  std::uint64_t size_bytes = 0;
  std::int64_t ctime_ns = 0;
  std::uint32_t device = 0;
  std::uint32_t generation = 0;

  [[nodiscard]] bool empty() const { return *this == FileKey{}; }
  friend auto operator<=>(const FileKey&, const FileKey&) = default;
};

// The user who may read a process by ptrace's rule: the process has no other ids than these and no
// capabilities, is dumpable, and lives in profd's user namespace.
struct ProcessOwner {
  std::uint32_t uid = 0;
  std::uint32_t gid = 0;

  friend auto operator<=>(const ProcessOwner&, const ProcessOwner&) = default;
};

// One user frame of a sample, decoded from its word.
struct UserFrame {
  std::uint64_t address;
  unsigned mapping;  // index into SampleView::mapping_ids, or PROFD_NO_MAPPING
  profd_frame_how how;

  static UserFrame from_word(std::uint64_t word) {
    return {word & PROFD_FRAME_ADDRESS_MASK,
            static_cast<unsigned>(word >> PROFD_FRAME_MAPPING_SHIFT & PROFD_FRAME_MAPPING_MASK),
            static_cast<profd_frame_how>(word >> PROFD_FRAME_HOW_SHIFT)};
  }
};

// A frame of interpreted code among a sample's user frames, in front of the native frame of the
// loop that runs it. User space puts it there (collectors/interpreters/weave.h), so that equal
// stacks have equal words. It has no mapping.
struct InterpretedFrame {
  // Of a code object of the process (collectors/interpreters/codes.h): never used for another one.
  std::uint32_t code;
  std::uint32_t position;  // as in profd_interpreted_entry; kNoPosition: unknown

  static constexpr unsigned kPositionBits = 24;
  static constexpr std::uint32_t kNoPosition = (1U << kPositionBits) - 1;

  // A position that does not fit is unknown.
  [[nodiscard]] static std::uint64_t to_word(std::uint32_t code, std::uint32_t position) {
    const std::uint64_t kept = position < kNoPosition ? position : kNoPosition;
    return kept | std::uint64_t{code} << kPositionBits |
           std::uint64_t{PROFD_NO_MAPPING} << PROFD_FRAME_MAPPING_SHIFT |
           std::uint64_t{PROFD_FRAME_INTERPRETED} << PROFD_FRAME_HOW_SHIFT;
  }
  [[nodiscard]] static bool is(std::uint64_t word) {
    return word >> PROFD_FRAME_HOW_SHIFT == PROFD_FRAME_INTERPRETED;
  }
  // `word` is one.
  [[nodiscard]] static InterpretedFrame from_word(std::uint64_t word) {
    return {static_cast<std::uint32_t>((word & PROFD_FRAME_ADDRESS_MASK) >> kPositionBits),
            static_cast<std::uint32_t>(word) & kNoPosition};
  }
};
static_assert(InterpretedFrame::kPositionBits + 32 < PROFD_FRAME_MAPPING_SHIFT);

// The kernel's name of a thread, up to 15 bytes; NUL fills the rest.
using ThreadName = std::array<char, PROFD_COMM_BYTES>;

[[nodiscard]] inline std::string_view text_of(const ThreadName& name) {
  return {name.data(), ::strnlen(name.data(), name.size())};
}

// A block of a thread (block_abi.h), as a part of a sample. Its start sets the first five members;
// the others are set when it has ended, or at its session's end.
struct BlockPart {
  std::uint64_t id = 0;                        // 0: no end follows
  std::uint32_t chance = 0;                    // of 2^32, that it was chosen; 0: certain
  profd_block_state state = PROFD_BLOCK_NONE;  // the sample is a tick
  std::uint64_t unsampled = 0;                 // of its thread before it, as in struct profd_block
  std::uint64_t unsampled_ns = 0;

  bool is_ongoing = false;   // it has not ended: the value is that up to the session's end
  std::uint64_t ns = 0;      // of all blocks that it stands for
  std::uint64_t own_ns = 0;  // of this one alone, in the session; 0 of a tick
};

struct SampleView {
  ProcessKey process;
  std::uint64_t time_ns;
  std::uint64_t period;  // in the event's unit
  std::uint32_t tid;
  std::uint32_t cpu;
  std::uint32_t sessions;             // bit mask of session slots, never 0
  std::optional<ProcessOwner> owner;  // at that moment; none: only root may read the process
  profd_context context;
  profd_user_end user_end;
  bool kernel_truncated;
  std::uint8_t event_set;
  ThreadName thread{};
  // The lists begin with the leaf. `words` is the three lists in a row: two samples of one process
  // with equal words and equal list sizes have the same stack.
  std::span<const std::uint64_t> words;
  std::span<const std::uint64_t> kernel_frames;
  std::span<const std::uint64_t> user_frames;  // of UserFrame; behind the unwinding, of both kinds
  std::span<const std::uint64_t> mapping_ids;
  // Of `user_frames` as the kernel sent them: whether a record of interpreted frames precedes it.
  profd_interpreted interpreted = PROFD_INTERPRETED_NONE;
  // How many samples it counts as: a block stands for those that were not chosen.
  std::uint64_t count = 1;
  BlockPart block{};
};

// A sample whose user stack reached a file without an unwind table (PROFD_END_DEFERRED), with what
// is needed to continue unwinding in user space.
struct DeferredSampleView {
  SampleView sample;
  const profd_deferred_stack* registers;  // at the last user frame; never null
  std::span<const std::uint64_t> window;  // stack memory from registers->window_start on
};

// An executable mapping of a process, as a value that can be kept.
struct CodeMapping {
  ProcessKey process;
  std::uint64_t time_ns;
  std::uint64_t id;
  std::uint64_t start;
  std::uint64_t end;
  std::uint64_t file_offset;
  FileKey file;
  profd_mapping_kind kind;
  bool on_fuse = false;  // the file lies on FUSE: its server may never answer
};

struct MappingView : CodeMapping {
  bool names_cut = false;
  std::string_view names{};  // components, innermost first, each ended by NUL
};

// The process begins to unmap this range. The kernel may still refuse it, and the range may hold no
// mapping.
struct UnmapView {
  ProcessKey process;
  std::uint64_t time_ns;
  std::uint64_t start;
  std::uint64_t end;
};

struct BlockEndView {
  std::uint64_t id;
  std::uint64_t end_ns;
};

// A block without a user stack (profd_whole_block).
struct WholeBlockView {
  ProcessKey process;
  std::uint64_t id;  // of its end, which follows; 0: it has ended
  std::uint64_t start_ns;
  std::uint64_t end_ns;
  std::optional<ProcessOwner> owner;
  std::uint64_t user_ip;  // 0: the thread has no user mode
  std::uint32_t tid;
  std::uint32_t sessions;  // never 0
  profd_block_state state;
  profd_context context;
  std::uint16_t call;  // PROFD_NO_CALL: no system call
  bool is_open;
  bool is_from_before;  // it began before the thread was watched
  bool was_chosen;      // its sample was sent
  ThreadName thread{};
  std::span<const std::uint64_t> kernel_frames;
  // Set by the unwinding: the word of user_ip, whose mapping is the only one of `mapping_ids`.
  std::span<const std::uint64_t> user_frames{};
  std::span<const std::uint64_t> mapping_ids{};
};

struct ProcessView {
  ProcessKey process;
  std::uint64_t time_ns;
  FileKey executable;
  std::uint64_t cgroup_id;
  std::uint32_t uid;
  std::uint32_t parent_tgid;
  bool kernel_thread;
  std::string_view comm;    // without NUL
  std::string_view cgroup;  // components, innermost first, each ended by NUL
};

// The interpreted frames of the sample that follows (profd_interpreted_stack).
struct InterpretedStackView {
  ProcessKey process;
  std::uint64_t time_ns;
  std::uint32_t cpu;
  profd_runtime_kind kind;
  std::uint8_t layout;
  profd_chain_end end;
  bool of_block;
  // Each of a known kind. The boundaries that were met rise, and so do their native frames.
  std::span<const profd_interpreted_entry> entries;  // never empty
};

// A code object (profd_interpreted_code). Its texts are what the process had, unchecked.
struct InterpretedCodeView {
  ProcessKey process;
  std::uint64_t time_ns;
  std::uint64_t id;  // never 0
  RawCode code;
};

// Every way to lose a sample, in the kernel first, then in user space. Each has a name and a
// counter, which `profctl status` shows and session.json has.
enum class Loss : std::uint8_t {
  kRingFull = PROFD_LOSS_RING_FULL,
  kRingBusy = PROFD_LOSS_RING_BUSY,
  kNoRing = PROFD_LOSS_NO_RING,
  kScratch = PROFD_LOSS_SCRATCH,
  kRingShare = PROFD_LOSS_RING_SHARE,
  kMalformedRecord = PROFD_LOSS_COUNT,  // a record that failed its checks: a bug of profd
  kMemoryLimit,  // the session reached its memory limit and the stack was new
  kCount,
};

inline constexpr std::size_t kLossCount = static_cast<std::size_t>(Loss::kCount);

using LossCounts = std::array<std::uint64_t, kLossCount>;

[[nodiscard]] constexpr std::string_view loss_name(Loss loss) {
  constexpr std::array<std::string_view, kLossCount> kNames = {
      "ring_full",  "ring_busy",        "no_ring",     "scratch",
      "ring_share", "malformed_record", "memory_limit"};
  return loss < Loss::kCount ? kNames[static_cast<std::size_t>(loss)] : "unknown";
}

// A stage that takes whole samples. Called on the io thread, in the order of each CPU's ring: the
// records of a process and its mappings come before the first sample of the same CPU that refers to
// them. Both may be repeated.
class SampleSink {
 public:
  SampleSink() = default;
  SampleSink(const SampleSink&) = delete;
  SampleSink& operator=(const SampleSink&) = delete;
  virtual ~SampleSink() = default;

  virtual void on_sample(const SampleView& sample) noexcept = 0;
  // `file` is null for a mapping without a file. The sink may keep it.
  virtual void on_mapping(const MappingView& mapping,
                          std::shared_ptr<const MappedFile> file) noexcept = 0;
  virtual void on_process(const ProcessView& process) noexcept = 0;
  // Only for processes that are watched (Sampler::watch_unmaps).
  virtual void on_unmap(const UnmapView& unmap) noexcept = 0;
  // Only between the unwinding and the Sampler, which joins the ends with the samples that started
  // the blocks (collectors/off_cpu/open_blocks.h): later stages get a sample for each block.
  virtual void on_block_end(const BlockEndView& /*end*/) noexcept {}
  virtual void on_whole_block(const WholeBlockView& /*block*/) noexcept {}
};

}  // namespace profd
