// What came of reading XRay records: how many there were, and everything that was not as it should
// be, by reason. Nothing of it is an error: the rest is intact.

#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <span>
#include <string_view>

namespace profd::xray {

// Each counter's unit is in its comment.
enum class Issue : std::uint8_t {
  // Of the bytes
  kCutRecord,      // records that a buffer's end cut
  kDamagedBuffer,  // buffers whose rest made no sense and was left out
  kDamagedBytes,   // bytes of these rests
  kJunk,           // bytes between buffers that are of none
  kCutBuffer,      // buffers that the trace's end, or another buffer, cut
  kEmptyBuffer,    // buffers without a record
  kDuplicate,      // buffers that were there before: listed twice, or a parent's in its child's log
  kUnreadable,     // bytes that could not be read
  kTooManyBuffers,  // buffers beyond what an index may hold
  // Of the calls
  kLateRoot,        // exits without an entry: calls that had begun before the records did
  kImpliedExit,     // calls without an exit, ended by an outer one's: exception, longjmp, tail jump
  kUnclosed,        // calls that had not ended when the records did
  kGap,             // places where a thread's records are not continuous
  kLostRecords,     // records that the writer dropped and counted
  kClockStep,       // records whose time was before that of the one before them
  kNoTime,          // records before a buffer's first absolute time
  kTooDeep,         // calls deeper than is kept; their time is their caller's
  kTooManyStacks,   // calls of stacks beyond the limit; their time is their caller's
  kTooManyThreads,  // records of threads beyond the limit
  kCutStack,        // stacks of a profile whose outermost frames are left out, for want of memory
};
inline constexpr std::size_t kIssues = static_cast<std::size_t>(Issue::kCutStack) + 1;

// "cut_record": as status and session.json have it.
[[nodiscard]] std::string_view issue_name(Issue issue);
// "records cut by their buffer's end", or of one "record cut by its buffer's end": for people,
// behind the count.
[[nodiscard]] std::string_view issue_text(Issue issue, std::uint64_t count);

struct Report {
  std::uint64_t bytes = 0;
  std::uint64_t buffers = 0;
  std::uint64_t records = 0;  // of functions
  std::uint64_t entries = 0;
  std::uint64_t exits = 0;  // tail exits included
  std::uint64_t tail_exits = 0;
  std::uint64_t arguments = 0;
  std::uint64_t custom_events = 0;
  std::uint64_t typed_events = 0;
  std::uint64_t threads = 0;
  std::array<std::uint64_t, kIssues> issues{};

  void count(Issue issue, std::uint64_t by = 1) { issues[static_cast<std::size_t>(issue)] += by; }
  [[nodiscard]] std::uint64_t operator[](Issue issue) const {
    return issues[static_cast<std::size_t>(issue)];
  }
  void add(const Report& other);  // `threads` included

  friend bool operator==(const Report&, const Report&) = default;
};

}  // namespace profd::xray
