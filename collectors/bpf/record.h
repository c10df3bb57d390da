// Reads the records of the BPF programs from the ring buffers: the bytes of a record are checked
// once and become a view, or are counted as malformed.
//
// The views borrow the bytes. Their layout is profd_abi.h's. Every size, count and enumerator is
// checked, so that no accessor of a view can fail or read outside the record.

#pragma once

#include <array>
#include <chrono>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <span>
#include <utility>
#include <variant>
#include <vector>

#include "collectors/bpf/sample.h"
#include "formats/base/result.h"
#include "formats/base/unique_fd.h"

struct ring_buffer;

namespace profd {

using Record =
    std::variant<SampleView, DeferredSampleView, MappingView, ProcessView, UnmapView, BlockEndView,
                 WholeBlockView, InterpretedStackView, InterpretedCodeView>;

[[nodiscard]] FileKey to_key(const profd_file_key& key);
[[nodiscard]] profd_file_key to_abi(const FileKey& key);

// `bytes` is one whole record as the ring buffer holds it, aligned to 8 bytes. None for a malformed
// record.
[[nodiscard]] std::optional<Record> parse_record(std::span<const std::byte> bytes);

// The session mask of a record that parse_record() refuses: 0 unless it is a sample that has one,
// or the start of a block with such a sample.
[[nodiscard]] std::uint32_t sessions_of_refused(std::span<const std::byte> bytes);

// The output of the iterator profd_open_blocks: whole blocks in a row, aligned to 8 bytes. The
// views borrow the bytes. None where anything else is in it.
[[nodiscard]] std::optional<std::vector<WholeBlockView>> parse_open_blocks(
    std::span<const std::byte> bytes);

// Takes a record, which is valid during the call. Must not throw.
using RecordHandler = std::function<void(const Record& record)>;

// Reads the rings of all CPUs. On the io thread.
class RecordReader {
 public:
  // Records that failed their checks, each a bug of profd.
  struct Malformed {
    std::uint64_t records = 0;
    std::array<std::uint64_t, PROFD_MAX_SESSIONS> samples{};  // by session slot
  };

  // `rings` has at least one ring.
  static Result<std::unique_ptr<RecordReader>> open(const std::vector<UniqueFd>& rings,
                                                    RecordHandler handler);
  RecordReader(const RecordReader&) = delete;
  RecordReader& operator=(const RecordReader&) = delete;
  ~RecordReader() = default;

  // Passes the records that the rings hold to the handler, for kMaxTurn at most. True: there may be
  // more. The next call goes on with the ring behind the one where this one stopped, so that a ring
  // that never empties does not keep the others full.
  bool drain();

  // A CPU can send more records than this thread can take: the thread has other work too.
  static constexpr std::chrono::milliseconds kMaxTurn{5};

  // Readable after the programs asked for a wake-up, until drained.
  [[nodiscard]] int wake_fd() const { return wake_.get(); }

  [[nodiscard]] const Malformed& malformed() const { return malformed_; }

 private:
  explicit RecordReader(RecordHandler handler) : handler_(std::move(handler)) {}
  static int on_bytes(void* context, void* data, std::size_t size) noexcept;
  void read(std::span<const std::byte> bytes) noexcept;

  struct Free {
    void operator()(ring_buffer* ring) const noexcept;
  };

  RecordHandler handler_;
  std::vector<std::unique_ptr<ring_buffer, Free>> rings_;
  UniqueFd wake_;         // an epoll instance with those of all rings
  std::size_t next_ = 0;  // the ring that is drained first
  std::chrono::steady_clock::time_point turn_end_;
  unsigned until_clock_ = 0;  // records before the clock is read again
  Malformed malformed_;
};

}  // namespace profd
