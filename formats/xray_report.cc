#include "formats/xray_report.h"

namespace profd::xray {
namespace {

struct Words {
  std::string_view name;
  std::string_view text;
};

constexpr std::array<Words, kIssues> kWords{{
    {"cut_record", "records cut by their buffer's end"},
    {"damaged_buffer", "buffers damaged: what came before the damage is kept"},
    {"damaged_bytes", "bytes lost by damage"},
    {"junk", "bytes that belong to no buffer"},
    {"cut_buffer", "buffers that were cut"},
    {"empty_buffer", "buffers without a record"},
    {"duplicate", "buffers that were there twice, read once"},
    {"unreadable", "bytes that could not be read"},
    {"too_many_buffers", "buffers left out: there are too many"},
    {"late_root", "calls that had begun before the records did"},
    {"implied_exit", "calls without an exit (exception, longjmp, lost record)"},
    {"unclosed", "calls that had not ended when the records did"},
    {"gap", "gaps in a thread's records"},
    {"lost_records", "records that the process could not write"},
    {"clock_step", "records whose clock went back"},
    {"no_time", "records without a time"},
    {"too_deep", "calls too deep to be kept: their time is their caller's"},
    {"too_many_stacks", "calls of more stacks than are kept: their time is their caller's"},
    {"too_many_threads", "records left out: of more threads than are kept"},
    {"cut_stack", "stacks whose outermost frames are left out: all together have too many"},
}};

const Words& words_of(Issue issue) { return kWords[static_cast<std::size_t>(issue)]; }

}  // namespace

std::string_view issue_name(Issue issue) { return words_of(issue).name; }
std::string_view issue_text(Issue issue) { return words_of(issue).text; }

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
