#include "ctl/commands/convert_report.h"

#include <cmath>
#include <ostream>

#include <boost/json/object.hpp>

#include "ctl/output/text.h"
#include "formats/base/json_text.h"

namespace profd {
namespace {

std::string megahertz_text(double hz) { return std::to_string(std::llround(hz / 1e6)) + " MHz"; }

}  // namespace

void print_report(const ConvertReport& report, const Console& console) {
  const xray::Report& counts = report.counts;
  console.err << "profctl: " << counted(counts.entries, "call") << " by "
              << counted(counts.threads, "thread") << " in " << counted(report.stacks, "stack")
              << "\n";
  for (std::size_t i = 0; i < xray::kIssues; ++i) {
    const auto issue = static_cast<xray::Issue>(i);
    if (counts[issue] == 0) continue;
    console.err << "profctl: " << counts[issue] << " " << xray::issue_text(issue, counts[issue])
                << "\n";
  }
  if (report.clock.header_is_wrong()) {
    console.err << "profctl: the header of the trace gives a clock of "
                << megahertz_text(static_cast<double>(report.clock.header_hz()))
                << "; compared with the wall clock it is "
                << megahertz_text(report.clock.frequency_hz()) << ", which is used\n";
  }
  if (report.unknown_functions != 0) {
    console.err << "profctl: " << counted(report.unknown_functions, "function")
                << " not found in the binaries, named xray:ID\n";
  }
}

std::string to_json(const ConvertReport& report) {
  const xray::Report& counts = report.counts;
  boost::json::object issues;
  for (std::size_t i = 0; i < xray::kIssues; ++i) {
    const auto issue = static_cast<xray::Issue>(i);
    if (counts[issue] != 0) issues[xray::issue_name(issue)] = counts[issue];
  }
  return json_text(boost::json::object{
      {"output", report.output},
      {"calls", counts.entries},
      {"records", counts.records},
      {"buffers", counts.buffers},
      {"threads", counts.threads},
      {"stacks", report.stacks},
      {"custom_events", counts.custom_events},
      {"typed_events", counts.typed_events},
      {"clock_hz", std::llround(report.clock.frequency_hz())},
      {"header_clock_hz", report.clock.header_hz()},
      {"unknown_functions", report.unknown_functions},
      {"issues", std::move(issues)},
  });
}

}  // namespace profd
