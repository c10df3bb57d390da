// The checks of a host or a process, each with its result and, if it failed, a remedy: the output
// of `profd --check --json` and `profctl doctor --json`.

#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "formats/base/result.h"

namespace profd {

enum class CheckState {
  kOk,
  kNote,     // a limitation without a remedy
  kUnknown,  // the check could not be made
  kFix,      // profd works, but something should be fixed
  kFatal,    // profd cannot run
};

struct CheckPoint {
  std::string name;  // "btf"
  CheckState state = CheckState::kOk;
  std::string message;
  std::string hint;              // the remedy; empty: none
  bool needs_privilege = false;  // the result depends on the privileges of the checking process too

  friend bool operator==(const CheckPoint&, const CheckPoint&) = default;
};

using CheckReport = std::vector<CheckPoint>;

[[nodiscard]] std::string_view state_name(CheckState state);  // "ok", "fatal"

// The most severe state of all points; kOk for an empty report.
[[nodiscard]] CheckState worst_state(const CheckReport& report);

[[nodiscard]] std::string to_json(const CheckReport& report);  // {"state","points":[...]}
[[nodiscard]] Result<CheckReport> parse_check_report(std::string_view json);

}  // namespace profd
