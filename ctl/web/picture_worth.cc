#include "ctl/web/picture_worth.h"

#include <cstdint>
#include <string>
#include <utility>
#include <vector>

#include <boost/json/array.hpp>
#include <boost/json/object.hpp>

#include "ctl/output/text.h"
#include "ctl/sources/sample_losses.h"
#include "ctl/sources/unnamed_code.h"
#include "ctl/views/view_text.h"
#include "formats/base/json_text.h"
#include "formats/base/utf8_text.h"

namespace profd {
namespace {

using boost::json::array;
using boost::json::object;

std::string share_text(double part, double whole) {
  return percent_text(whole > 0 ? 100 * part / whole : 0);
}

using Counts = std::vector<CountOfReason>;

// "lost 0.1 %: 6 ring_full"; with `scope`, "lost 0.1 % of the recording: 6 ring_full"
std::string share_by_reason(const std::string& what, const Counts& counts, double whole,
                            const std::string& scope) {
  const CountsByReason reasons = by_reason(counts);
  const std::uint64_t sum = sum_of(reasons);
  std::string text = what + " " + share_text(static_cast<double>(sum), whole) + scope;
  if (sum == 0) return text;
  return printable_utf8(text + ": " + counts_text(reasons), kMaxPrintableBytes);
}

void add_lost(const SampleLosses& losses, const std::string& scope, array& parts) {
  const auto taken = static_cast<double>(losses.written + sum_of(by_reason(losses.lost)));
  parts.emplace_back(share_by_reason("lost", losses.lost, taken, scope));
}

void add_incomplete(const SampleLosses& losses, const std::string& scope, array& parts) {
  if (losses.user_samples == 0) return;
  parts.emplace_back(share_by_reason("incomplete stacks", losses.incomplete,
                                     static_cast<double>(losses.user_samples), scope));
}

}  // namespace

std::string picture_worth_json(const Source& source, bool has_lost,
                               const std::optional<StatusInfo>& status) {
  const Samples& samples = source.samples;
  const std::int64_t all = samples.sum().samples;
  const std::string event = printable_utf8(samples.event, kMaxPrintableBytes);
  const std::string nouns = std::string(kind_names(samples.time_kind).noun) + "s";
  const std::string count =
      samples.has_counts ? std::to_string(all) + " " + nouns : cpu_time_text(samples.sum().cpu_ns);
  array parts{count + (event == "samples" ? "" : " of " + event)};
  if (source.summary) {
    const SampleLosses losses = losses_of(*source.summary);
    if (has_lost) add_lost(losses, "", parts);
    add_incomplete(losses, "", parts);
  } else if (samples.losses) {
    const std::string scope = " of the recording";
    add_lost(*samples.losses, scope, parts);
    add_incomplete(*samples.losses, scope, parts);
  }
  parts.emplace_back("innermost frame without a name " +
                     share_text(static_cast<double>(count_unnamed_code(samples).all.samples),
                                static_cast<double>(all)));
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
