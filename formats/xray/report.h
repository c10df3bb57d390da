// The counts of XRay records that were read, and of every irregularity in them by reason. None of
// them is an error: the other records are read.

#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <span>
#include <string_view>

namespace profd::xray {

// The comments have the units of the counters.
enum class Issue : std::uint8_t {
  // In the bytes
  kCutRecord,        // records cut by the end of their buffer
  kMalformedBuffer,  // buffers whose rest is malformed and was skipped
  kMalformedBytes,   // bytes of these rests
  kJunk,             // bytes between buffers that belong to none
  kCutBuffer,        // buffers cut by the end of the trace or by another buffer
  kEmptyBuffer,      // buffers without a record
  kDuplicate,        // copies of a buffer: listed twice, or a parent's buffer in its child's log
  kUnreadable,       // bytes that could not be read
  kTooManyBuffers,   // buffers over the limit of the index
  // In the calls
  kLateRoot,        // exits without an entry: the call had begun before the records
  kImpliedExit,     // calls without an exit, ended by an outer exit: exception, longjmp, tail jump
  kUnclosed,        // calls that had not ended at the end of the records
  kGap,             // places where a thread's records are not continuous
  kLostRecords,     // records that the writer dropped and counted
  kClockStep,       // records with an earlier time than the record before
  kNoTime,          // records before the first absolute time of a buffer
  kTooDeep,         // calls over the limit of depth; their time counts for their caller
  kTooManyStacks,   // calls of stacks over the limit; their time counts for their caller
  kTooManyThreads,  // records of threads over the limit
  kCutStack,        // stacks of a profile whose outermost frames were dropped to save memory
};
inline constexpr std::size_t kIssues = static_cast<std::size_t>(Issue::kCutStack) + 1;

// The name in status and session.json, such as "cut_record".
[[nodiscard]] std::string_view issue_name(Issue issue);
// The text that follows the count in messages, such as "records cut by the end of their buffer".
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

// All counts except for the issues.
inline constexpr std::array kReportCounts{
    &Report::bytes,        &Report::buffers,    &Report::records,   &Report::entries,
    &Report::exits,        &Report::tail_exits, &Report::arguments, &Report::custom_events,
    &Report::typed_events, &Report::threads};

}  // namespace profd::xray
