// Which samples and frames a view shows: --focus, --ignore and --hide.
//
// The expressions are RE2's. They are searched in the name of a function, in its full and in its
// short form, in the file of its source and in the file with its code, as pprof does it. A sample
// is shown if a frame of it matches --focus and none matches --ignore. Frames that match --hide are
// left out of stacks; a sample that loses all of its frames by that is not shown.

#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "ctl/views/samples.h"
#include "ctl/views/short_names.h"
#include "formats/base/result.h"

namespace profd {

struct SelectionPatterns {
  std::vector<std::string> focus;
  std::vector<std::string> ignore;
  std::vector<std::string> hide;
  // Functions as the page shows their names: short or full, printable. They add to `focus` and
  // `hide`.
  std::vector<std::string> focus_names{};
  std::vector<std::string> hide_names{};
  // Of a source whose samples are narrowed further: a sample has to match one of these as well.
  std::vector<std::string> within{};

  [[nodiscard]] bool empty() const {
    return focus.empty() && ignore.empty() && hide.empty() && focus_names.empty() &&
           hide_names.empty() && within.empty();
  }
};

// What `request` leaves of the samples and frames that `source`, which has neither names nor
// `within`, leaves.
[[nodiscard]] SelectionPatterns narrowed(const SelectionPatterns& source,
                                         SelectionPatterns request);

// "--focus work --hide main": the regular expressions of a command line, as they are.
[[nodiscard]] std::string describe(const SelectionPatterns& patterns);

// kInvalidArgument: not a regular expression.
[[nodiscard]] Result<void> check_pattern_of_names(const std::string& pattern);

// In which of the texts the regular expression, which was checked, is found.
[[nodiscard]] std::vector<bool> texts_with(const std::string& pattern,
                                           std::span<const std::string> texts);

// The functions whose name (either form) is `name`; where there is none, those in whose name this
// regular expression is found. By number of the function. kInvalidArgument: as above. kNotFound: no
// function of these.
[[nodiscard]] Result<std::vector<bool>> find_functions(const Samples& samples,
                                                       const std::string& name);

// The names of these functions (by number) as a view shows them, each once, in alphabetical order.
// Any bytes.
[[nodiscard]] std::vector<std::string> shown_names_of(const Samples& samples,
                                                      const std::vector<bool>& functions,
                                                      NameForm form);

// The functions that the page shows by one of these names. By number of the function; those of no
// such name are false.
[[nodiscard]] std::vector<bool> functions_shown_as(const Samples& samples,
                                                   const std::vector<std::string>& names);

class Selection {
 public:
  // Borrows the samples. The patterns were checked.
  Selection(const Samples& samples, const SelectionPatterns& patterns);

  [[nodiscard]] const Samples& samples() const { return samples_; }

  // What the patterns say about a frame: marks that shows() and hides() know. 0: nothing.
  [[nodiscard]] std::uint8_t marks(std::uint32_t frame) const {
    return marks_.empty() ? std::uint8_t{0} : marks_[frame];
  }
  // Whether a sample whose frames have these marks, joined, may be shown.
  [[nodiscard]] bool shows(std::uint8_t joined) const;
  [[nodiscard]] static bool hides(std::uint8_t marks);

 private:
  const Samples& samples_;
  std::uint8_t needed_;              // the marks that a sample has to have
  std::vector<std::uint8_t> marks_;  // by frame; empty: no patterns
};

}  // namespace profd
