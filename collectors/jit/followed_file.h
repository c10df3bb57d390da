// One JIT source that is read as it grows: how far, when again, and how often it failed. For the
// follower's thread.

#pragma once

#include <chrono>
#include <cstdint>
#include <memory>
#include <optional>
#include <utility>

#include "collectors/jit/events.h"
#include "collectors/parser/parser.h"

namespace profd {

class FollowedFile {
 public:
  using Clock = std::chrono::steady_clock;

  // A file that grows all the time takes the parser for this part of a core.
  static constexpr int kShareOfCore = 4;
  static constexpr int kMaxStrikes = 3;
  // Between two checks of a file that does not grow: the first and the longest interval.
  static constexpr std::chrono::milliseconds kFirstInterval{100};
  static constexpr std::chrono::milliseconds kLastInterval{1000};

  explicit FollowedFile(std::shared_ptr<const JitFile> file) : file_(std::move(file)) {}

  struct Step {
    std::optional<JitFileGrew> grew;
    std::optional<JitRefusal> end;  // why the file is not read any further
    std::uint64_t bytes = 0;        // of the file that were read
    Clock::duration took{};
  };
  // Reads the next part, if the file has changed since it was read to its end.
  [[nodiscard]] Step read_more(Parser& parser, Clock::time_point now);

  // When to read more.
  [[nodiscard]] Clock::time_point due() const { return due_; }
  void set_due(Clock::time_point due) { due_ = due; }

  // Sets when to read more of a file whose owner is over the share. True: for the first time.
  [[nodiscard]] bool defer(Clock::time_point due);

  // How often the end of the file was reached.
  [[nodiscard]] std::uint64_t times_at_end() const { return times_at_end_; }

  [[nodiscard]] const JitFile& file() const { return *file_; }

 private:
  struct Extent {
    std::uint64_t bytes = 0;
    std::int64_t written_ns = 0;
    friend bool operator==(const Extent&, const Extent&) = default;
  };

  [[nodiscard]] std::optional<Extent> extent() const;
  [[nodiscard]] std::optional<JitRefusal> refusal_of(const Extent& there) const;
  [[nodiscard]] std::uint64_t bytes_between(std::uint64_t before, std::uint64_t known) const;
  Result<JitFileGrew> read_part(Parser& parser) const;
  void read_rows(Parser& parser, const JitDumpChunk& chunk, JitFileGrew& part) const;
  [[nodiscard]] std::optional<JitRefusal> strike(ErrorCode code);
  void set_next_read(Clock::time_point now, Clock::duration took, bool is_at_end);
  [[nodiscard]] bool is_dump() const { return file_->kind == JitFileKind::kJitDump; }
  [[nodiscard]] std::uint64_t offset() const { return is_dump() ? dump_.offset : map_.offset; }

  std::shared_ptr<const JitFile> file_;
  JitDumpState dump_;
  PerfMapState map_;
  int strikes_ = 0;
  bool was_deferred_ = false;
  std::optional<Extent> read_to_;  // the extent that was read to its end
  std::uint64_t times_at_end_ = 0;
  Clock::duration interval_ = kFirstInterval;
  Clock::time_point due_{};
};

}  // namespace profd
