// What the subcommands that show samples have in common: options, and where text goes.

#pragma once

#include <cstdint>
#include <limits>
#include <string>
#include <vector>

#include "ctl/options/command_line.h"
#include "ctl/output/console.h"
#include "ctl/views/group_key.h"
#include "ctl/views/selection.h"
#include "ctl/views/short_names.h"
#include "ctl/views/view_text.h"
#include "formats/base/result.h"

namespace profd {

struct ViewOptions {
  std::vector<GroupKey> by{GroupKey::kFunction};
  NameForm names = NameForm::kShort;
  SelectionPatterns patterns;
  std::uint64_t limit = 0;  // 0: not given
  bool all_rows = false;
  bool has_idle = false;  // threads that wait all the time
  bool use_pager = true;

  [[nodiscard]] ViewLimits limits() const;
  // Of JSON, which has all rows unless a limit is given.
  [[nodiscard]] std::size_t json_rows() const;
};

// --focus, --ignore, --hide
void add_filters(OptionList& list, SelectionPatterns& patterns);

// --names, --idle and those
void add_stack_options(OptionList& list, ViewOptions& options);

// --by, those, --limit, --all, --no-pager
void add_view_options(OptionList& list, ViewOptions& options);

// kInvalidArgument: `by` has another key than labels of processes, which stand above the functions
// of a tree. kFunction alone, the default, is no label and no error.
[[nodiscard]] Result<void> check_tree_keys(const std::vector<GroupKey>& by);

// The error of a view without any row.
[[nodiscard]] Error nothing_to_show(const SelectionPatterns& patterns);

// Leaves out the samples of idle threads (idle.h), unless --idle is given.
void leave_out_idle(const ViewOptions& options, Samples& samples);

// Prints text: in a pager where it is longer than the terminal.
void print_view(const std::string& text, const ViewOptions& options, const Console& console);

}  // namespace profd
