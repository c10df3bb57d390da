#include "formats/api/check_report.h"

#include <algorithm>
#include <array>

#include "formats/base/json_members.h"

namespace profd {
namespace {

constexpr std::array<std::string_view, 5> kStates = {"ok", "note", "unknown", "fix", "fatal"};

struct WholeReport {
  CheckReport points;
};

}  // namespace

// These functions are found by the types of their arguments, hence not in the unnamed namespace.

Result<void> read_json(const boost::json::value& value, CheckState& out) {
  std::string name;
  if (auto read = read_json(value, name); !read) return read;
  const auto* const known = std::ranges::find(kStates, name);
  if (known == kStates.end()) return json_expected("a state");
  out = static_cast<CheckState>(known - kStates.begin());
  return {};
}

boost::json::value json_of(CheckState state) { return boost::json::value(state_name(state)); }

void members(auto& fields, Is<CheckPoint> auto& point) {
  fields.required("name", point.name)
      .required("state", point.state)
      .required("message", point.message)
      .optional("hint", point.hint)
      .optional("needs_privilege", point.needs_privilege);
}

void members(auto& fields, Is<WholeReport> auto& report) {
  fields.derived("state", worst_state(report.points)).required("points", report.points);
}

std::string_view state_name(CheckState state) {
  return kStates.at(static_cast<std::size_t>(state));
}

CheckState worst_state(const CheckReport& report) {
  CheckState worst = CheckState::kOk;
  for (const CheckPoint& point : report) worst = std::max(worst, point.state);
  return worst;
}

std::string to_json(const CheckReport& report) { return json_text(json_of(WholeReport{report})); }

Result<CheckReport> parse_check_report(std::string_view text) {
  auto whole = parse_as<WholeReport>(text);
  if (!whole) return whole.error();
  return std::move(whole->points);
}

}  // namespace profd
