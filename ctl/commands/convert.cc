// Turns profiles into files of another form, and XRay traces into profiles.

#include <optional>
#include <string>
#include <vector>

#include "ctl/commands/convert_samples.h"
#include "ctl/commands/convert_traces.h"
#include "ctl/commands/sample_form.h"
#include "ctl/commands/subcommand.h"
#include "ctl/commands/view_options.h"
#include "ctl/options/shared_options.h"
#include "formats/base/errors.h"

namespace profd {
namespace {

class Convert final : public Subcommand {
 public:
  Convert()
      : Subcommand("convert", "Turn profiles, or traces of LLVM XRay, into files of another form") {
  }

  void add_options(OptionList& list) override {
    list.operand("IN", "Profiles, directories or other sources; or xray-log.* files of one process",
                 Reader::path(traces_.logs));
    list.option("-o,--output", "FILE",
                "File to write to (required), whose extension is the form; - is standard output",
                Reader::path(traces_.output));
    list.option("--format", "FORMAT",
                "pprof, prof, folded, speedscope, html, svg or json, instead of the one that the "
                "extension says; of traces prof, folded, or trace for Perfetto [prof]",
                {named_form_, parse_sample_form});
    add_filters(list, patterns_);
    add_processes(list, target_);
    list.heading("XRay traces");
    list.option("-b,--binary", "FILE",
                "The program that wrote the traces; then its instrumented shared objects",
                Reader::path(traces_.binaries));
    list.option("--build-id", "HEX", "Refuse a program with another build id", traces_.build_id);
    list.flag("--calls", "Count calls instead of measuring exclusive times", traces_.calls);
    list.flag("--force", "Accept a program that can't have written the traces", traces_.force);
    list.heading("Options");
    list.rule([this, &list] { return check(list); });
  }

  Result<int> run(Client& client, const Console& console) override {
    if (is_of_traces_ || is_xray_trace(traces_.logs.front())) return run_traces(console);
    if (!form_) return unknown_form();
    if (*form_ == SampleForm::kTrace) {
      return invalid_argument("only traces of LLVM XRay have times for a timeline",
                              "give .pb.gz, .folded, .speedscope.json, .html, .svg or .json");
    }
    return convert_samples({.sources = traces_.logs,
                            .output = traces_.output,
                            .form = *form_,
                            .target = target_,
                            .patterns = patterns_},
                           client, console);
  }

 private:
  Result<void> check(const OptionList& list) {
    if (traces_.output.empty()) {
      return invalid_argument("no output is given", "name a file with --output");
    }
    form_ = list.given("--format") ? named_form_ : form_of_extension(traces_.output);
    is_of_traces_ =
        traces_.calls || traces_.force || !traces_.binaries.empty() || !traces_.build_id.empty();
    return {};
  }

  Result<int> run_traces(const Console& console) {
    if (!target_.empty() || !patterns_.empty()) {
      return invalid_argument(
          "targets, --focus, --ignore and --hide are for samples, and not for traces of XRay",
          "two steps do it: convert to x.folded, then that file");
    }
    traces_.form = form_.value_or(SampleForm::kProf);
    if (traces_.form == SampleForm::kJson) traces_.form = SampleForm::kTrace;
    const bool is_known = traces_.form == SampleForm::kProf ||
                          traces_.form == SampleForm::kFolded || traces_.form == SampleForm::kTrace;
    if (!is_known) {
      return invalid_argument("traces of XRay become prof, folded or trace, and not " +
                                  std::string(name_of(traces_.form)),
                              "two steps do it: convert to x.folded, then that file");
    }
    if (traces_.calls && traces_.form == SampleForm::kTrace) {
      return invalid_argument("a timeline has no counts of calls",
                              "use --calls with --format prof or folded");
    }
    return convert_traces(traces_, console);
  }

  [[nodiscard]] Error unknown_form() const {
    return invalid_argument(
        (traces_.output == "-"
             ? "standard output needs a format"
             : "the extension of '" + printable(traces_.output) + "' names no form"),
        "give .pb.gz, .prof, .folded, .speedscope.json, .html, .svg or .json, or --format");
  }

  TraceConversion traces_;  // of samples, `logs` are the sources
  TargetRequest target_;
  SelectionPatterns patterns_;
  SampleForm named_form_ = SampleForm::kProf;
  std::optional<SampleForm> form_;  // by name or extension; none: there is no such extension
  bool is_of_traces_ = false;
};

}  // namespace

std::unique_ptr<Subcommand> make_convert() { return std::make_unique<Convert>(); }

}  // namespace profd
