// What the sampling collector emits: one type per kind of record, checked once, borrowed.
//
// A view points into the ring buffer and is valid only during the call that hands it over. Its
// accessors cannot fail: record.h checked every size before the view was made. Times are
// CLOCK_MONOTONIC nanoseconds.

#pragma once

#include <compare>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>

#include "bpf/profd_abi.h"
#include "formats/base/address_range.h"

namespace profd {

struct MappedFile;

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

// Whose process it is by ptrace's rule: these are all its ids, it is dumpable, without
// capabilities, and in profd's user namespace.
struct ProcessOwner {
  std::uint32_t uid = 0;
  std::uint32_t gid = 0;

  friend auto operator<=>(const ProcessOwner&, const ProcessOwner&) = default;
};

// One user frame of a sample, taken apart from its word.
struct UserFrame {
  std::uint64_t address;
  unsigned mapping;  // index into SampleView::mapping_ids, or PROFD_NO_MAPPING
  profd_frame_how how;

  static UserFrame from_word(std::uint64_t word) {
    return {word & ((std::uint64_t{1} << PROFD_FRAME_ADDRESS_BITS) - 1),
            static_cast<unsigned>(word >> PROFD_FRAME_MAPPING_SHIFT & PROFD_FRAME_MAPPING_MASK),
            static_cast<profd_frame_how>(word >> PROFD_FRAME_HOW_SHIFT)};
  }
};

struct SampleView {
  ProcessKey process;
  std::uint64_t time_ns;
  std::uint64_t period;  // in the event's unit
  std::uint32_t tid;
  std::uint32_t cpu;
  std::uint32_t sessions;             // bit mask of session slots, never 0
  std::optional<ProcessOwner> owner;  // at that moment; none: nobody's but root's
  profd_context context;
  profd_user_end user_end;
  bool kernel_truncated;
  std::uint8_t event_set;
  // Leaf first. `words` is all three in a row: equal words (and counts) of one process are an equal
  // stack.
  std::span<const std::uint64_t> words;
  std::span<const std::uint64_t> kernel_frames;
  std::span<const std::uint64_t> user_frames;  // UserFrame words
  std::span<const std::uint64_t> mapping_ids;
  // Where the stack has to be unwound on (PROFD_END_DEFERRED), else null and empty: never so for a
  // sink.
  const profd_deferred_stack* deferred = nullptr;
  std::span<const std::uint64_t> deferred_window{};
};

struct MappingView {
  ProcessKey process;
  std::uint64_t time_ns;
  std::uint64_t id;
  std::uint64_t start;
  std::uint64_t end;
  std::uint64_t file_offset;
  FileKey file;
  profd_mapping_kind kind;
  bool names_cut;
  bool on_fuse = false;    // another process answers for the file, or never does
  std::string_view names;  // components, innermost first, each ended by NUL
};

// The process begins to give up this memory, as it may do without having it.
struct UnmapView {
  ProcessKey process;
  std::uint64_t time_ns;
  std::uint64_t start;
  std::uint64_t end;
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

// Where the events of a source go. Called on the io thread, in ring order: a mapping or process
// before the first sample of the same CPU that needs it. Repeats of both are normal.
class SampleSink {
 public:
  SampleSink() = default;
  SampleSink(const SampleSink&) = delete;
  SampleSink& operator=(const SampleSink&) = delete;
  virtual ~SampleSink() = default;

  virtual void on_sample(const SampleView& sample) noexcept = 0;
  // `file` is null for a mapping without file and for a file that could not be opened; it may be
  // kept.
  virtual void on_mapping(const MappingView& mapping,
                          std::shared_ptr<const MappedFile> file) noexcept = 0;
  virtual void on_process(const ProcessView& process) noexcept = 0;
  // Only of processes that are watched (Sampler::watch_unmaps).
  virtual void on_unmap(const UnmapView& unmap) noexcept = 0;
};

}  // namespace profd
