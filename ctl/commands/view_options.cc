#include "ctl/commands/view_options.h"

#include <algorithm>
#include <ostream>

#include "ctl/options/values.h"
#include "ctl/views/idle.h"
#include "formats/base/errors.h"

namespace profd {
namespace {

constexpr std::size_t kUnlimited = std::numeric_limits<std::size_t>::max();

Result<NameForm> parse_name_form(const std::string& name) {
  if (name == "short") return NameForm::kShort;
  if (name == "full") return NameForm::kFull;
  return invalid_argument("invalid --names '" + name + "' (short or full)",
                          "full names have template arguments, packages and parameters");
}

Result<std::string> checked_pattern(const std::string& pattern) {
  if (auto checked = check_pattern_of_names(pattern); !checked) return checked.error();
  return pattern;
}

}  // namespace

ViewLimits ViewOptions::limits() const {
  if (all_rows) {
    return {.rows = kUnlimited, .inner = kUnlimited, .nodes = kUnlimited, .min_share = 0};
  }
  if (limit == 0) return {};
  return {.rows = limit, .inner = limit, .nodes = limit, .min_share = 0};
}

std::size_t ViewOptions::json_rows() const { return limit == 0 ? kUnlimited : limit; }

void add_filters(OptionList& list, SelectionPatterns& patterns) {
  list.option("--focus", "REGEX", "Only samples with a matching function, source or object file",
              {patterns.focus, checked_pattern});
  list.option("--ignore", "REGEX", "No samples with such a function or file",
              {patterns.ignore, checked_pattern});
  list.option("--hide", "REGEX", "Leave such frames out of stacks",
              {patterns.hide, checked_pattern});
}

void add_stack_options(OptionList& list, ViewOptions& options) {
  list.option("--names", "FORM",
              "short: without parameters, template arguments and packages; full [short]",
              {options.names, parse_name_form});
  add_filters(list, options.patterns);
  list.flag("--idle", "Of off-cpu and wall: show threads that wait for work all the time, too",
            options.has_idle);
}

void add_view_options(OptionList& list, ViewOptions& options) {
  list.option("--by", "KEYS",
              "process, command, unit, container, user, thread, runtime, state, wait, file, line "
              "or function [function]; two for two levels: unit,function",
              {options.by, parse_group_keys});
  add_stack_options(list, options);
  list.option("--limit", "N", "Show N rows [20]", {options.limit, parse_limit});
  list.flag("--all", "Show all rows", options.all_rows);
  list.flag("--no-pager", "Print long text without a pager ($PAGER)", options.use_pager, false);
  list.rule([&]() -> Result<void> {
    if (!options.all_rows || options.limit == 0) return {};
    return invalid_argument("--all and --limit exclude each other", "leave out one of them");
  });
}

Result<void> check_tree_keys(const std::vector<GroupKey>& by) {
  if (by == std::vector{GroupKey::kFunction} || std::ranges::none_of(by, is_of_frames)) return {};
  return invalid_argument("a tree has functions: --by takes labels of processes with it",
                          "give --by process, command, unit, container, user, thread, runtime, "
                          "state or wait");
}

Error nothing_to_show(const SelectionPatterns& patterns) {
  if (patterns.empty()) {
    return fail(ErrorCode::kNotFound, "no sample of these has a stack",
                "'profctl report --by process' (or command, unit, user) shows whose they are");
  }
  return fail(ErrorCode::kNotFound, "no sample matches --focus, --ignore and --hide",
              "without them 'profctl report' shows all");
}

void leave_out_idle(const ViewOptions& options, Samples& samples) {
  if (!options.has_idle) fold_idle(samples);
}

void print_view(const std::string& text, const ViewOptions& options, const Console& console) {
  const auto lines = static_cast<std::size_t>(std::ranges::count(text, '\n'));
  const bool is_long = console.screen.height != 0 && lines >= console.screen.height;
  if (is_long && options.use_pager && console.screen.is_terminal()) {
    console.out << std::flush;
    if (show_in_pager(text)) return;
  }
  console.out << text;
}

}  // namespace profd
