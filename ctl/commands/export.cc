#include <ostream>
#include <string>
#include <utility>

#include "ctl/commands/fetch_result.h"
#include "ctl/commands/history_answers.h"
#include "ctl/commands/subcommand.h"
#include "ctl/output/text.h"
#include "formats/base/errors.h"

namespace profd {
namespace {

class Export final : public Subcommand {
 public:
  Export() : Subcommand("export", "Write the profiles of a time range that continuous mode kept") {}

  void add_options(OptionList& list) override {
    add_target(list, request_.target);
    add_range(list, request_.range);
    add_history_event(list, request_.event);
    list.rule([&list]() -> Result<void> {
      if (list.given("--since") || list.given("--until") || list.given("--last")) return {};
      return invalid_argument("no time range is given", "give --last 10m, or --since and --until");
    });
    add_output(list, "./profd-RESULT, which is printed", output_);
    add_written_list(list, written_);
    list.option("--by", "KEY", "Split into a file for each process, unit or container", by_);
    list.rule([this, &list]() -> Result<void> {
      if (by_.empty()) return {};
      if (list.given("--format") && output_.form == ResultForm::kDirectory) {
        return invalid_argument("--by writes files, and 'dir' is no form of one",
                                "give --format pprof, folded or speedscope");
      }
      Result<Destination> split = split_destination(output_, by_);
      if (!split) return split.error();
      output_ = std::move(*split);
      return {};
    });
  }

  Result<int> run(Client& client, const Console& console) override {
    if (auto checked = check_output(output_); !checked) return checked.error();
    request_.profile_only = output_.form != ResultForm::kDirectory;
    const auto result = client.export_windows(request_);
    if (!result) {
      return with_hint_on_names(explained_absence(result.error(), request_.range, request_.target,
                                                  client, request_.event),
                                request_.target);
    }
    if (result->note) console.err << "profctl: " << printable(*result->note) << "\n";
    return fetch_result(client, *result, output_, written_, console);
  }

 private:
  ExportRequest request_;
  Destination output_;
  WrittenList written_{.all_option = "--all-files"};  // --all is a target
  std::string by_;
};

}  // namespace

std::unique_ptr<Subcommand> make_export() { return std::make_unique<Export>(); }

}  // namespace profd
