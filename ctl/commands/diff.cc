// Compares two sources: which functions use more or less of the CPU.

#include "ctl/views/diff.h"

#include <algorithm>
#include <charconv>
#include <cstdint>
#include <optional>
#include <ostream>
#include <string>
#include <utility>

#include "ctl/commands/history_answers.h"
#include "ctl/commands/shown_source.h"
#include "ctl/commands/subcommand.h"
#include "ctl/commands/view_options.h"
#include "ctl/output/text.h"
#include "ctl/sources/source.h"
#include "ctl/views/report.h"
#include "ctl/views/view_json.h"
#include "formats/base/errors.h"

namespace profd {
namespace {

// "5%" or "5"
Result<double> parse_threshold(const std::string& text) {
  double percent = 0;
  const char* const end = text.data() + text.size();
  const auto [at, error] = std::from_chars(text.data(), end, percent);
  const bool is_number = error == std::errc() && (at == end || std::string(at, end) == "%");
  if (is_number && percent >= 0 && percent <= 100) return percent;
  return invalid_argument("invalid --threshold '" + text.substr(0, 64) + "' (0% to 100%)",
                          "it is in percentage points: --threshold 5%");
}

Result<DiffMeasure> parse_measure(const std::string& name) {
  if (name == "share") return DiffMeasure::kShare;
  if (name == "cpu") return DiffMeasure::kCpu;
  return invalid_argument("invalid --per '" + name + "' (share or cpu)",
                          "share is of all samples of each side, cpu of one CPU");
}

class ShowDiff final : public Subcommand {
 public:
  ShowDiff() : Subcommand("diff", "Compare two sources, or two times of the history") {}

  void add_options(OptionList& list) override {
    list.operand("BASE",
                 "A source as in 'report': a directory, file, session, or a time: "
                 "14:00..14:10",
                 Reader::path(base_.name));
    list.operand("NEW", "The source that is compared with it", Reader::path(new_.name));
    add_processes(list, base_.target);
    add_history_event(list, base_.event);
    add_view_options(list, view_);
    list.option("--per", "MEASURE",
                "share: compare shares of all samples; cpu: percent of one CPU, or thread [share]",
                {measure_, parse_measure});
    list.option("--threshold", "PERCENT",
                "Exit with 1 if a row changed by more percentage points: 5%",
                {threshold_, parse_threshold});
    list.rule([this, &list]() -> Result<void> {
      has_threshold_ = list.given("--threshold");
      for (SourceRequest* const side : {&base_, &new_}) {
        side->may_lack_target = true;
        side->has_range_options = false;
      }
      new_.target = base_.target;
      new_.event = base_.event;
      return {};
    });
  }

  Result<int> run(Client& client, const Console& console) override {
    const auto base = make_side(client, base_, console);
    if (!base) return base.error();
    const auto now = make_side(client, new_, console);
    if (!now) return now.error();
    if (base->absence && now->absence) return with_hint_on_names(*base->absence, base_.target);
    say_if_empty(*base, console);
    say_if_empty(*now, console);
    const ViewScope& base_scope = base->report.scope;
    const ViewScope& new_scope = now->report.scope;
    if (base_scope.event != new_scope.event) {
      return invalid_argument(
          "the sources count different events: " + base_scope.event + " and " + new_scope.event,
          "compare sources of the same event");
    }
    // One side alone may be empty: all is new, or gone.
    if (base->report.rows.empty() && now->report.rows.empty()) {
      return nothing_to_show(view_.patterns);
    }
    const auto diff = make_diff(base->report, now->report, measure_);
    if (!diff) return diff.error();
    warn_of_common_windows(*base, *now, console);
    if (console.json) {
      console.out << to_json(*diff, view_.json_rows(), threshold_) << "\n";
    } else {
      const DiffTitles titles{.base = base->title, .now = now->title};
      print_view(diff_text(*diff, titles, view_.limits(), console.screen), view_, console);
    }
    return verdict(*diff, console);
  }

 private:
  struct Side {
    Report report;
    std::string title;  // printable
    std::optional<TimeRange> windows{};
    std::optional<Error> absence{};  // of the target
  };

  Result<Side> make_side(Client& client, const SourceRequest& request, const Console& console) {
    auto source = open_source(client, request);
    if (!source) {
      return with_hint_on_names(explained_absence(source.error(), range_of_source(request),
                                                  request.target, client, request.event),
                                request.target);
    }
    print_notes(*source, source->title + ": ", console);
    leave_out_idle(view_, source->samples);
    const Selection selection(source->samples, view_.patterns);
    return Side{.report = make_report(selection, view_.by, view_.names),
                .title = printable(source->title),
                .windows = source->windows,
                .absence = source->absence};
  }

  static void say_if_empty(const Side& side, const Console& console) {
    if (!side.absence) return;
    console.err << "profctl: " << side.title << ": " << printable(side.absence->message)
                << ": it counts as empty\n";
  }

  // A window is not divided, so that of the time at which two ranges meet can be in both.
  static void warn_of_common_windows(const Side& base, const Side& now, const Console& console) {
    if (!base.windows || !now.windows || base.absence || now.absence) return;
    const TimeRange common{.since_ms = std::max(base.windows->since_ms, now.windows->since_ms),
                           .until_ms = std::min(base.windows->until_ms, now.windows->until_ms)};
    constexpr std::uint64_t kRoundingMs = 1000;  // their start and length are in whole seconds
    if (common.since_ms + kRoundingMs >= common.until_ms) return;
    console.err << "profctl: both sides have the samples from " << text_of_ms(common.since_ms)
                << " to " << text_of_ms(common.until_ms)
                << ": windows of the history are not divided\n"
                << "hint: 'profctl history' shows where they begin and end\n";
  }

  int verdict(const Diff& diff, const Console& console) const {
    const std::size_t beyond = has_threshold_ ? diff.count_beyond(threshold_) : 0;
    if (beyond == 0) return kExitOk;
    if (!console.json) {
      console.err << "profctl: " << counted(beyond, "row") << " changed by more than "
                  << decimal_text(threshold_, 1) << " percentage points\n";
    }
    return kExitFailed;
  }

  SourceRequest base_;
  SourceRequest new_;
  ViewOptions view_;
  DiffMeasure measure_ = DiffMeasure::kShare;
  double threshold_ = 0;
  bool has_threshold_ = false;
};

}  // namespace

std::unique_ptr<Subcommand> make_diff() { return std::make_unique<ShowDiff>(); }

}  // namespace profd
