// Shows which functions used the CPU: of the history, a session, a directory or a file.

#include "ctl/views/report.h"

#include <algorithm>
#include <cstdint>
#include <ostream>
#include <string>
#include <utility>
#include <vector>

#include "ctl/commands/shown_source.h"
#include "ctl/commands/subcommand.h"
#include "ctl/commands/view_options.h"
#include "ctl/views/call_tree.h"
#include "ctl/views/view_json.h"
#include "formats/base/errors.h"
#include "formats/base/utf8_text.h"

namespace profd {
namespace {

// Of a tree as JSON: more than a viewer can show at once.
constexpr std::size_t kJsonNodes = 10'000;

constexpr double kWholePercent = 100;

// Of the functions that an expression matches.
constexpr std::size_t kNamedFunctions = 5;
constexpr std::size_t kFunctionNameBytes = 100;

enum class RowOrder : std::uint8_t { kTime, kLongest };

Result<RowOrder> parse_order(const std::string& name) {
  if (name == "time") return RowOrder::kTime;
  if (name == "longest") return RowOrder::kLongest;
  return invalid_argument("invalid --sort '" + name.substr(0, 64) + "' (time or longest)",
                          "longest is by the longest block");
}

class ShowReport final : public Subcommand {
 public:
  ShowReport() : Subcommand("report", "Show which functions used the CPU, now or in the past") {}

  void add_options(OptionList& list) override {
    add_shown_source(list, request_);
    add_view_options(list, view_);
    list.flag("--tree", "Show the calls as a tree, the largest first", is_tree_);
    list.option("--callers", "FUNCTION", "Show what calls this function: a name or a REGEX",
                callers_);
    list.option("--callees", "FUNCTION", "Show what this function calls", callees_);
    list.option("--sort", "ORDER",
                "time: by time; longest: by the longest block, of off-cpu and wall [time]",
                {order_, parse_order});
    list.rule([this, &list] { return check(list); });
  }

  Result<int> run(Client& client, const Console& console) override {
    auto source = open_shown_source(client, request_, console);
    if (!source) return source.error();
    if (auto checked = check_order(source->samples); !checked) return checked.error();
    say_order(source->samples, console);
    leave_out_idle(view_, source->samples);
    const Selection selection(source->samples, view_.patterns);
    const auto text = console.json ? json_of(selection, console) : text_of(selection, console);
    if (!text) return text.error();
    if (console.json) {
      console.out << *text << "\n";
    } else {
      print_view(printable(source->title) + ", " + *text, view_, console);
    }
    return kExitOk;
  }

 private:
  [[nodiscard]] bool is_around_function() const { return !callers_.empty() || !callees_.empty(); }

  // A directory has neither the longest blocks nor the numbers of which a mean could be made.
  [[nodiscard]] Result<void> check_order(const Samples& samples) const {
    if (order_ == RowOrder::kTime || (is_of_blocks(samples.time_kind) && samples.has_counts)) {
      return {};
    }
    if (is_of_blocks(samples.time_kind)) {
      return invalid_argument("a gperftools profile has no longest blocks, and no number of blocks",
                              "record a file: -o x.pb.gz");
    }
    return invalid_argument(
        "--sort longest is for times of blocks, and this source has samples of " +
            printable(samples.event),
        "'profctl record -e off-cpu' records them");
  }

  void say_order(const Samples& samples, const Console& console) const {
    if (order_ == RowOrder::kTime || samples.rows().empty()) return;
    if (samples.sum().longest_ns > 0) return;
    console.err << "profctl: these samples do not say how long the longest block was, so they are "
                   "sorted by the mean\n";
  }

  [[nodiscard]] Report sorted_report(const Selection& selection) const {
    Report report = make_report(selection, view_.by, view_.names);
    if (order_ == RowOrder::kLongest) sort_by_longest_block(report);
    return report;
  }

  Result<void> check(const OptionList& list) {
    if (list.given("--sort") && (is_tree_ || is_around_function())) {
      return invalid_argument("--sort excludes --tree, --callers and --callees",
                              "leave out --sort: a tree has its largest nodes first");
    }
    if (is_tree_ && is_around_function()) {
      return invalid_argument("--tree excludes --callers and --callees", "leave out one of them");
    }
    if (!(is_tree_ || is_around_function()) || !list.given("--by")) return {};
    return check_tree_keys(view_.by);
  }

  // Lines, the second of which is about what is idle.
  static std::string heading_text(const ViewScope& scope) {
    const std::string idle = idle_text(scope);
    return scope_text(scope) + "\n" + (idle.empty() ? "" : idle + "\n");
  }

  Result<std::string> text_of(const Selection& selection, const Console& console) {
    if (is_tree_ || is_around_function()) return trees_text(selection, console);
    const Report report = sorted_report(selection);
    if (report.rows.empty()) return nothing_to_show(view_.patterns);
    return heading_text(report.scope) + "\n" + report_text(report, view_.limits(), console.screen);
  }

  Result<std::string> trees_text(const Selection& selection, const Console& console) {
    std::string text;
    const ViewLimits limits = view_.limits();
    const auto trees = make_trees(selection, limits.nodes, limits.min_share, console);
    if (!trees) return trees.error();
    for (const auto& [title, tree] : *trees) {
      if (text.empty()) text = heading_text(tree.scope);
      text +=
          "\n" + (title.empty() ? "" : printable(title) + ":\n") + tree_text(tree, console.screen);
    }
    return text;
  }

  Result<std::string> json_of(const Selection& selection, const Console& console) {
    if (!is_tree_ && !is_around_function()) {
      const Report report = sorted_report(selection);
      if (report.rows.empty()) return nothing_to_show(view_.patterns);
      return to_json(report, view_.json_rows());
    }
    const std::size_t nodes =
        view_.all_rows ? view_.limits().nodes : std::min(view_.json_rows(), kJsonNodes);
    const auto trees = make_trees(selection, nodes, 0, console);
    if (!trees) return trees.error();
    if (is_tree_) return to_json(trees->front().second);
    std::string text;
    if (!callers_.empty()) text += "\"callers\":" + to_json(trees->front().second);
    if (!callees_.empty()) {
      text += (text.empty() ? "" : ",") + ("\"callees\":" + to_json(trees->back().second));
    }
    return "{" + text + "}";
  }

  using TitledTrees = std::vector<std::pair<std::string, CallTree>>;

  // Pruned. `min_share`: percent of the samples that are in the tree, so that a function with few
  // samples has callers and callees, too.
  Result<TitledTrees> make_trees(const Selection& selection, std::size_t nodes, double min_share,
                                 const Console& console) {
    TitledTrees trees;
    TreeOptions options{.names = view_.names};
    if (!is_of_frames(view_.by.front())) options.by = view_.by;
    if (is_tree_) trees.emplace_back("", make_tree(selection, options));
    const auto add = [&](const std::string& name, TreeDirection direction,
                         const std::string& title) -> Result<void> {
      if (name.empty()) return {};
      auto functions = find_functions(selection.samples(), name);
      if (!functions) return functions.error();
      const bool is_said = direction == TreeDirection::kCallees && name == callers_;
      if (!is_said) say_which(selection.samples(), name, *functions, console);
      options.direction = direction;
      options.functions = std::move(*functions);
      trees.emplace_back(title + name, make_tree(selection, options));
      return {};
    };
    if (auto added = add(callers_, TreeDirection::kCallers, "callers of "); !added) {
      return added.error();
    }
    if (auto added = add(callees_, TreeDirection::kCallees, "callees of "); !added) {
      return added.error();
    }
    for (auto& [title, tree] : trees) {
      if (tree.nodes.empty()) return nothing_to_show(view_.patterns);
      prune(tree, nodes, min_share * tree.share() / kWholePercent);
    }
    return trees;
  }

  // A regular expression can find more functions than its author thought of.
  void say_which(const Samples& samples, const std::string& name,
                 const std::vector<bool>& functions, const Console& console) const {
    const std::vector<std::string> names = shown_names_of(samples, functions, view_.names);
    if (names.size() < 2) return;
    std::string text = std::to_string(names.size()) + " functions match '" + name + "': ";
    const std::size_t shown = std::min(names.size(), kNamedFunctions);
    for (std::size_t i = 0; i < shown; ++i) {
      text += (i == 0 ? "" : ", ") + printable_utf8(names[i], kFunctionNameBytes);
    }
    if (names.size() > shown) text += " and " + std::to_string(names.size() - shown) + " more";
    console.err << "profctl: " << printable(text) << "\n";
  }

  SourceRequest request_;
  ViewOptions view_;
  RowOrder order_ = RowOrder::kTime;
  bool is_tree_ = false;
  std::string callers_;
  std::string callees_;
};

}  // namespace

std::unique_ptr<Subcommand> make_report() { return std::make_unique<ShowReport>(); }

}  // namespace profd
