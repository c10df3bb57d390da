// One file of a JIT runtime as it is read on: how far, when next, and how often it went wrong.
// Of the following thread alone.

#pragma once

#include <chrono>
#include <cstdint>
#include <memory>
#include <optional>

#include "collectors/jit/follower.h"
#include "collectors/parser/parser.h"

namespace profd {

class FollowedFile {
 public:
  using Clock = std::chrono::steady_clock;

  // Of a core: a file that grows all the time takes no more of the parser.
  static constexpr int kShareOfCore = 4;
  static constexpr int kMaxStrikes = 3;

  explicit FollowedFile(std::shared_ptr<const JitFile> file) : file_(std::move(file)) {}

  // What reading on gave: news, or the end of the file, or neither.
  struct Step {
    std::optional<JitFileGrew> news;
    std::optional<JitRefusal> end;
    std::uint64_t bytes = 0;  // by which it got on
    Clock::duration took{};
  };
  // Reads the next part, if the file has changed since it was read to its end.
  [[nodiscard]] Step read_on(Parser& parser, Clock::time_point now);

  // When to read on.
  [[nodiscard]] Clock::time_point due() const { return due_; }
  void set_due(Clock::time_point due) { due_ = due; }

  // How often it was read to what was its end, so that a request can wait for that.
  [[nodiscard]] std::uint64_t times_at_end() const { return times_at_end_; }

  [[nodiscard]] const JitFile& file() const { return *file_; }

 private:
  struct Extent {
    std::uint64_t bytes = 0;
    std::int64_t written_ns = 0;
    friend bool operator==(const Extent&, const Extent&) = default;
  };

  [[nodiscard]] std::optional<Extent> extent() const;
  Result<JitFileGrew> read_part(Parser& parser) const;
  void read_rows(Parser& parser, const JitDumpChunk& chunk, JitFileGrew& part) const;
  void take_up(const JitFileGrew& part, Step& step);
  [[nodiscard]] std::optional<JitRefusal> strike(ErrorCode code);
  void rest(Clock::time_point now, Clock::duration took, bool is_at_end);
  [[nodiscard]] std::uint64_t offset() const;

  std::shared_ptr<const JitFile> file_;
  JitDumpState dump_;
  PerfMapState map_;
  std::uint32_t epoch_ = 0;
  int strikes_ = 0;
  std::optional<Extent> read_to_;  // the extent that was read to its end
  std::uint64_t times_at_end_ = 0;
  Clock::duration interval_ = JitFollower::kFirstInterval;
  Clock::time_point due_{};
};

}  // namespace profd
