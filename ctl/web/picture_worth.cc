#include "ctl/web/picture_worth.h"

#include <cstdint>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include <boost/json/array.hpp>
#include <boost/json/object.hpp>

#include "ctl/output/text.h"
#include "formats/base/json_text.h"
#include "formats/base/utf8_text.h"

namespace profd {
namespace {

using boost::json::array;
using boost::json::object;

// A function without a name is named after its file: "[libfoo.so]".
bool is_unnamed(std::string_view name) { return name.empty() || name.starts_with('['); }

SampleValue unnamed_leaves(const Samples& samples) {
  SampleValue unnamed;
  std::vector<std::uint32_t> stack;
  for (const Samples::Row& row : samples.rows()) {
    samples.read_stack(row, stack);
    if (stack.empty()) continue;
    const SampledFunction& leaf = samples.functions()[samples.frames()[stack.front()].function];
    if (is_unnamed(samples.text(leaf.name))) unnamed.add(row.value);
  }
  return unnamed;
}

std::string share_text(double part, double whole) {
  return percent_text(whole > 0 ? 100 * part / whole : 0);
}

// "lost 0.1 %: 6 ring_full"
std::string share_by_reason(const std::string& what, const CountsByReason& counts, double whole) {
  const std::uint64_t sum = sum_of(counts);
  const std::string text = what + " " + share_text(static_cast<double>(sum), whole);
  return sum == 0 ? text : text + ": " + counts_text(counts);
}

void add_summary(const SessionSummary& summary, array& parts) {
  std::uint64_t user_samples = 0;
  CountsByReason incomplete;
  for (const ProfileSummary& profile : summary.profiles) {
    user_samples += profile.user_samples;
    for (const auto& [reason, count] : profile.incomplete) incomplete[reason] += count;
  }
  const std::uint64_t taken = summary.ledger.written + sum_of(summary.ledger.lost);
  parts.emplace_back(share_by_reason("lost", summary.ledger.lost, static_cast<double>(taken)));
  parts.emplace_back(
      share_by_reason("incomplete stacks", incomplete, static_cast<double>(user_samples)));
}

}  // namespace

std::string picture_worth_json(const Source& source, const std::optional<StatusInfo>& status) {
  const Samples& samples = source.samples;
  const std::int64_t all = samples.sum().samples;
  const std::string event = printable_utf8(samples.event, kMaxPrintableBytes);
  array parts{std::to_string(all) + " samples" + (event == "samples" ? "" : " of " + event)};
  if (source.summary) add_summary(*source.summary, parts);
  parts.emplace_back(
      "innermost frame without a name " +
      share_text(static_cast<double>(unnamed_leaves(samples).samples), static_cast<double>(all)));
  if (status) {
    parts.emplace_back(
        "profd itself " +
        share_text(status->cpu_seconds + status->parsers.cpu_seconds, status->uptime_seconds) +
        " of one CPU");
  }
  for (const std::string& note : source.notes) {
    parts.emplace_back(printable_utf8(note, kMaxPrintableBytes));
  }
  return json_text(object{{"parts", std::move(parts)}});
}

}  // namespace profd
