#include "formats/api/session_summary.h"

#include <algorithm>
#include <numeric>

#include "formats/base/json_members.h"

namespace profd {

std::uint64_t sum_of(const CountsByReason& counts) {
  return std::accumulate(counts.begin(), counts.end(), std::uint64_t{0},
                         [](std::uint64_t sum, const auto& count) { return sum + count.second; });
}

std::string text_of(const CountsByReason& counts) {
  std::string text;
  for (const auto& [reason, count] : counts) {
    text.append(text.empty() ? "" : ", ").append(std::to_string(count) + " " + reason);
  }
  return text;
}

void add_later(const JitNames& later, JitNames& sum) {
  if (!later.runtime.empty()) sum.runtime = later.runtime;
  if (!later.file.empty()) sum.file = later.file;
  sum.functions = std::max(sum.functions, later.functions);
  sum.samples += later.samples;
  sum.named_samples += later.named_samples;
  sum.time_dropped += later.time_dropped;
}

void members(auto& fields, Is<JitNames> auto& names) {
  fields.required("runtime", names.runtime)
      .required("file", names.file)
      .required("functions", names.functions)
      .required("samples", names.samples)
      .required("named_samples", names.named_samples)
      .optional("time_dropped", names.time_dropped);
}

boost::json::value json_of(const JitNames& names) { return write_members(names); }

Result<void> read_json(const boost::json::value& value, JitNames& out) {
  return read_members(value, out);
}

void add_later(const InterpretedNames& later, InterpretedNames& sum) {
  if (!later.runtime.empty()) {
    sum.runtime = later.runtime;
    sum.refused = later.refused;
  }
  sum.functions = std::max(sum.functions, later.functions);
  sum.samples += later.samples;
  sum.named_samples += later.named_samples;
  sum.unanchored += later.unanchored;
}

void members(auto& fields, Is<InterpretedNames> auto& names) {
  fields.required("runtime", names.runtime)
      .required("functions", names.functions)
      .required("samples", names.samples)
      .required("named_samples", names.named_samples)
      .required("unanchored", names.unanchored)
      .if_set("refused", names.refused);
}

boost::json::value json_of(const InterpretedNames& names) { return write_members(names); }

Result<void> read_json(const boost::json::value& value, InterpretedNames& out) {
  return read_members(value, out);
}

std::int64_t SessionLedger::difference() const {
  return static_cast<std::int64_t>(taken - written - sum_of(lost));
}

void members(auto& fields, Is<SessionLedger> auto& ledger) {
  fields.required("taken", ledger.taken)
      .required("written", ledger.written)
      .required("lost", ledger.lost)
      .derived("difference", ledger.difference());
}

std::int64_t BlockSummary::difference() const {
  return static_cast<std::int64_t>(blocked.us - sampled.us - long_unsampled.us -
                                   short_unsampled.us - lost.us);
}

void members(auto& fields, Is<BlockSummary::Term> auto& term) {
  fields.required("blocks", term.blocks).required("us", term.us);
}

void members(auto& fields, Is<BlockSummary> auto& blocks) {
  fields.required("blocked", blocks.blocked)
      .required("sampled", blocks.sampled)
      .required("long_unsampled", blocks.long_unsampled)
      .required("short_unsampled", blocks.short_unsampled)
      .required("lost", blocks.lost)
      .derived("difference", blocks.difference())
      .required("by_weight", blocks.by_weight)
      .required("from_before", blocks.from_before)
      .required("ongoing", blocks.ongoing)
      .required("incomplete", blocks.incomplete);
}

boost::json::value json_of(const BlockSummary& blocks) { return write_members(blocks); }

Result<void> read_json(const boost::json::value& value, BlockSummary& out) {
  return read_members(value, out);
}

void members(auto& fields, Is<ProfileSummary> auto& profile) {
  fields.required("pid", profile.pid)
      .required("start_time_ns", profile.start_time_ns)
      .required("comm", profile.comm)
      .required("path", profile.path)
      .required("samples", profile.samples)
      .required("stacks", profile.stacks)
      .required("user_samples", profile.user_samples)
      .required("complete_samples", profile.complete_samples)
      .required("kernel_only_samples", profile.kernel_only_samples)
      .required("incomplete", profile.incomplete)
      .optional("unit", profile.unit)
      .optional("container", profile.container)
      .optional("jit", profile.jit)
      .if_set("interpreted", profile.interpreted);
}

void members(auto& fields, Is<SessionSummary> auto& summary) {
  fields.required("session", summary.session)
      .required("started", summary.started)
      .required("seconds", summary.seconds)
      .required("event", summary.event)
      .required("period_us", summary.period_us)
      .optional("period_unit", summary.period_unit)
      .required("profiles", summary.profiles)
      .required("ledger", summary.ledger)
      .if_set("xray", summary.xray)
      .if_set("blocks", summary.blocks);
}

boost::json::value json_of(const SessionSummary& summary) { return write_members(summary); }

Result<void> read_json(const boost::json::value& value, SessionSummary& out) {
  return read_members(value, out);
}

std::string to_json(const SessionSummary& summary) { return json_text(json_of(summary)); }

Result<SessionSummary> parse_session_summary(std::string_view text) {
  return parse_as<SessionSummary>(text);
}

}  // namespace profd
