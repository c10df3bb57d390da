#include "formats/xray/report.h"

namespace profd::xray {
namespace {

struct Words {
  std::string_view name;
  std::string_view one;
  std::string_view more;
};

constexpr std::array<Words, kIssues> kWords{{
    {"cut_record", "record cut by its buffer's end", "records cut by their buffer's end"},
    {"damaged_buffer", "buffer damaged: what came before the damage is kept",
     "buffers damaged: what came before the damage is kept"},
    {"damaged_bytes", "byte lost by damage", "bytes lost by damage"},
    {"junk", "byte that belongs to no buffer", "bytes that belong to no buffer"},
    {"cut_buffer", "buffer that was cut", "buffers that were cut"},
    {"empty_buffer", "buffer without a record", "buffers without a record"},
    {"duplicate", "buffer that was there twice, read once",
     "buffers that were there twice, read once"},
    {"unreadable", "byte that could not be read", "bytes that could not be read"},
    {"too_many_buffers", "buffer left out: there are too many",
     "buffers left out: there are too many"},
    {"late_root", "call that had begun before the records did",
     "calls that had begun before the records did"},
    {"implied_exit", "call without an exit (exception, longjmp, lost record)",
     "calls without an exit (exception, longjmp, lost record)"},
    {"unclosed", "call that had not ended when the records did",
     "calls that had not ended when the records did"},
    {"gap", "gap in a thread's records", "gaps in a thread's records"},
    {"lost_records", "record that the process could not write",
     "records that the process could not write"},
    {"clock_step", "record whose clock went back", "records whose clock went back"},
    {"no_time", "record without a time", "records without a time"},
    {"too_deep", "call too deep to be kept: its time is its caller's",
     "calls too deep to be kept: their time is their caller's"},
    {"too_many_stacks", "call of more stacks than are kept: its time is its caller's",
     "calls of more stacks than are kept: their time is their caller's"},
    {"too_many_threads", "record left out: of more threads than are kept",
     "records left out: of more threads than are kept"},
    {"cut_stack", "stack whose outermost frames are left out: all together have too many",
     "stacks whose outermost frames are left out: all together have too many"},
}};

const Words& words_of(Issue issue) { return kWords[static_cast<std::size_t>(issue)]; }

}  // namespace

std::string_view issue_name(Issue issue) { return words_of(issue).name; }
std::string_view issue_text(Issue issue, std::uint64_t count) {
  return count == 1 ? words_of(issue).one : words_of(issue).more;
}

void Report::add(const Report& other) {
  bytes += other.bytes;
  buffers += other.buffers;
  records += other.records;
  entries += other.entries;
  exits += other.exits;
  tail_exits += other.tail_exits;
  arguments += other.arguments;
  custom_events += other.custom_events;
  typed_events += other.typed_events;
  threads += other.threads;
  for (std::size_t i = 0; i < issues.size(); ++i) issues[i] += other.issues[i];
}

}  // namespace profd::xray
