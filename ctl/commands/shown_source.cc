#include "ctl/commands/shown_source.h"

#include <chrono>
#include <cstdint>
#include <optional>
#include <ostream>
#include <string>

#include "ctl/commands/block_texts.h"
#include "ctl/commands/history_answers.h"
#include "ctl/options/shared_options.h"
#include "ctl/output/text.h"
#include "ctl/sources/sample_losses.h"
#include "ctl/sources/unnamed_code.h"
#include "formats/base/errors.h"
#include "formats/base/utf8_text.h"

namespace profd {
namespace {

constexpr std::chrono::minutes kUsualRange{10};

std::uint64_t ms_before_now(std::chrono::milliseconds span) {
  const auto now = std::chrono::floor<std::chrono::milliseconds>(std::chrono::system_clock::now());
  return static_cast<std::uint64_t>((now.time_since_epoch() - span).count());
}

// The numbers of a source are those of the samples that it has, so a loss makes them too small.
void warn_of_losses(const Source& source, const std::string& of, const Console& console) {
  const auto losses = source.summary ? losses_of(*source.summary) : source.samples.losses;
  if (!losses) return;
  const CountsByReason reasons = by_reason(losses->lost);
  const std::uint64_t lost = sum_of(reasons);
  if (lost == 0) return;
  console.err << "profctl: " << printable(of)
              << lost_text(source.samples.time_kind, lost, losses->written + lost)
              << " were lost, so times are too small: "
              << printable_utf8(reasons_text(source.samples.time_kind, reasons), kMaxPrintableBytes)
              << "\n";
}

// Says what gives names to code that has none, where much of the time is spent in it.
void hint_at_unnamed_code(const Samples& samples, const Console& console) {
  constexpr std::int64_t kFewSamples = 100;  // less would be chance
  constexpr double kMuchPercent = 25;
  const std::int64_t all = samples.sum().samples;
  if (console.json || all < kFewSamples) return;
  const UnnamedCode unnamed = count_unnamed_code(samples);
  const auto percent = [all](const SampleValue& part) {
    return 100 * static_cast<double>(part.samples) / static_cast<double>(all);
  };
  if (const double files = percent(unnamed.of_files); files > kMuchPercent) {
    console.err << "profctl: " << percent_text(files)
                << " of the samples are in programs and libraries, in code without a name\n"
                   "hint: 'profctl debuginfo list' shows the debug files that are missing; with "
                   "them, later samples have names\n";
  }
  if (const double runtimes = percent(unnamed.of_runtimes); runtimes > kMuchPercent) {
    console.err << "profctl: " << percent_text(runtimes)
                << " of the samples are in JIT code without a name\n"
                   "hint: 'profctl doctor --pid PID' shows the option that makes its runtime write "
                   "names\n";
  }
  if (const double interpreted = percent(unnamed.of_interpreters); interpreted > kMuchPercent) {
    console.err << "profctl: " << percent_text(interpreted)
                << " of the samples are in interpreted code without a name\n"
                   "hint: 'profctl status' counts why code objects were not announced "
                   "(docs/python.md)\n";
  }
}

}  // namespace

void add_shown_source(OptionList& list, SourceRequest& request, const std::string& by_default) {
  list.optional_operand("SOURCE",
                        "A directory of record, a .pb.gz, .prof or .folded file, the id of a "
                        "session, or a time: 14:00..14:10 [" +
                            by_default + "]",
                        Reader::path(request.name));
  add_processes(list, request.target);
  add_range(list, request.range);
  add_history_event(list, request.event);
  list.rule([&list, &request]() -> Result<void> {
    if (list.given("--event") && !request.name.empty() && !is_range_name(request.name)) {
      return invalid_argument("--event is for the history, and " + request.name + " has one event",
                              "leave out --event");
    }
    const bool has_range = list.given("--since") || list.given("--until") || list.given("--last");
    if (!request.name.empty() && has_range) {
      return invalid_argument("a source and a time of the history exclude each other",
                              "leave out " + request.name + " or the time");
    }
    if (!has_range) request.range.since_ms = ms_before_now(kUsualRange);
    return {};
  });
}

std::optional<TimeRange> range_of_source(const SourceRequest& request) {
  if (request.name.empty()) return request.range;
  if (!is_range_name(request.name)) return std::nullopt;
  const auto range = parse_range_name(request.name);
  return range ? std::optional(*range) : std::nullopt;
}

void print_notes(const Source& source, const std::string& of, const Console& console) {
  for (const std::string& note : source.notes) {
    console.err << "profctl: " << printable(of + note) << "\n";
  }
  warn_of_losses(source, of, console);
}

Result<Source> open_shown_source(Client& client, const SourceRequest& request,
                                 const Console& console) {
  auto source = open_source(client, request);
  if (!source) {
    return with_hint_on_names(explained_absence(source.error(), range_of_source(request),
                                                request.target, client, request.event),
                              request.target);
  }
  print_notes(*source, "", console);
  hint_at_unnamed_code(source->samples, console);
  if (!source->samples.rows().empty()) return source;
  return fail(ErrorCode::kNotFound, source->title + " has no samples",
              is_of_blocks(source->samples.time_kind)
                  ? "no thread of it was off the CPU then"
                  : "nothing used the CPU then, or too little for a sample");
}

}  // namespace profd
