#include "formats/xray/report.h"

namespace profd::xray {
namespace {

struct IssueText {
  std::string_view name;
  std::string_view one;
  std::string_view more;
};

constexpr std::array<IssueText, kIssues> kIssueTexts{{
    {"cut_record", "record cut by the end of its buffer", "records cut by the end of their buffer"},
    {"malformed_buffer", "malformed buffer: read up to the malformed bytes",
     "malformed buffers: read up to the malformed bytes"},
    {"malformed_bytes", "byte skipped in malformed buffers", "bytes skipped in malformed buffers"},
    {"junk", "byte outside of any buffer", "bytes outside of any buffer"},
    {"cut_buffer", "incomplete buffer", "incomplete buffers"},
    {"empty_buffer", "buffer without a record", "buffers without a record"},
    {"duplicate", "second copy of a buffer, skipped", "second copies of buffers, skipped"},
    {"unreadable", "byte that could not be read", "bytes that could not be read"},
    {"too_many_buffers", "buffer skipped: over the limit", "buffers skipped: over the limit"},
    {"late_root", "call that had begun before the records",
     "calls that had begun before the records"},
    {"implied_exit", "call without an exit (exception, longjmp, lost record)",
     "calls without an exit (exception, longjmp, lost record)"},
    {"unclosed", "call that had not ended at the end of the records",
     "calls that had not ended at the end of the records"},
    {"gap", "gap in a thread's records", "gaps in a thread's records"},
    {"lost_records", "record that the process had to drop", "records that the process had to drop"},
    {"clock_step", "record whose clock went back", "records whose clock went back"},
    {"no_time", "record without a time", "records without a time"},
    {"too_deep", "call over the limit of depth: its time counts for its caller",
     "calls over the limit of depth: their time counts for their caller"},
    {"too_many_stacks", "call over the limit of stacks: its time counts for its caller",
     "calls over the limit of stacks: their time counts for their caller"},
    {"too_many_threads", "record skipped: over the limit of threads",
     "records skipped: over the limit of threads"},
    {"cut_stack", "stack without its outermost frames: over the limit of frames",
     "stacks without their outermost frames: over the limit of frames"},
}};

const IssueText& entry_of(Issue issue) { return kIssueTexts[static_cast<std::size_t>(issue)]; }

}  // namespace

std::string_view issue_name(Issue issue) { return entry_of(issue).name; }
std::string_view issue_text(Issue issue, std::uint64_t count) {
  return count == 1 ? entry_of(issue).one : entry_of(issue).more;
}

void Report::add(const Report& other) {
  for (const auto count : kReportCounts) this->*count += other.*count;
  for (std::size_t i = 0; i < issues.size(); ++i) issues[i] += other.issues[i];
}

}  // namespace profd::xray
