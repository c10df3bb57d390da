// What was looked at on a host or a process, each point ok or with what to do about it: the output
// of `profd --check --json` and `profctl doctor --json`.

#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "formats/base/result.h"

namespace profd {

enum class CheckState {
  kOk,
  kNote,     // less than could be, and nothing to mend
  kUnknown,  // could not be looked at
  kFix,      // works, but should be mended
  kFatal,    // profd can't run
};

struct CheckPoint {
  std::string name;  // "btf"
  CheckState state = CheckState::kOk;
  std::string message;
  std::string hint;              // what to do; empty when there is nothing
  bool needs_privilege = false;  // says of the rights of whoever looked, as well as of the host

  friend bool operator==(const CheckPoint&, const CheckPoint&) = default;
};

using CheckReport = std::vector<CheckPoint>;

[[nodiscard]] std::string_view state_name(CheckState state);  // "ok", "fatal"

// The gravest of all points; kOk for none.
[[nodiscard]] CheckState worst_state(const CheckReport& report);

[[nodiscard]] std::string to_json(const CheckReport& report);  // {"state","points":[...]}
[[nodiscard]] Result<CheckReport> parse_check_report(std::string_view json);

}  // namespace profd
