#include "formats/api/check_report.h"

#include <algorithm>
#include <array>
#include <utility>

#include <boost/json/array.hpp>
#include <boost/json/object.hpp>

#include "formats/base/json_fields.h"

namespace profd {
namespace {

namespace json = boost::json;

constexpr std::size_t kMaxDepth = 6;
constexpr auto kStates =
    std::to_array<std::pair<CheckState, std::string_view>>({{CheckState::kOk, "ok"},
                                                            {CheckState::kNote, "note"},
                                                            {CheckState::kUnknown, "unknown"},
                                                            {CheckState::kFix, "fix"},
                                                            {CheckState::kFatal, "fatal"}});

struct WholeReport {
  CheckReport points;
};

}  // namespace

Result<void> read_json(const json::value& value, CheckState& out) {
  std::string name;
  if (auto read = read_json(value, name); !read) return read;
  const auto* const known =
      std::ranges::find(kStates, name, &decltype(kStates)::value_type::second);
  if (known == kStates.end()) return json_expected("a state");
  out = known->first;
  return {};
}

Result<void> read_json(const json::value& value, CheckPoint& out) {
  return JsonFields(value)
      .required("name", out.name)
      .required("state", out.state)
      .required("message", out.message)
      .optional("hint", out.hint)
      .optional("needs_privilege", out.needs_privilege)
      .finish();
}

namespace {

Result<void> read_json(const json::value& value, WholeReport& out) {
  return JsonFields(value).required("points", out.points).finish();
}

}  // namespace

std::string_view state_name(CheckState state) {
  return std::ranges::find(kStates, state, &decltype(kStates)::value_type::first)->second;
}

CheckState worst_state(const CheckReport& report) {
  CheckState worst = CheckState::kOk;
  for (const CheckPoint& point : report) worst = std::max(worst, point.state);
  return worst;
}

std::string to_json(const CheckReport& report) {
  json::array points;
  for (const CheckPoint& point : report) {
    points.push_back(json::object{{"name", point.name},
                                  {"state", state_name(point.state)},
                                  {"message", point.message},
                                  {"hint", point.hint},
                                  {"needs_privilege", point.needs_privilege}});
  }
  return json_text(
      json::object{{"state", state_name(worst_state(report))}, {"points", std::move(points)}});
}

Result<CheckReport> parse_check_report(std::string_view text) {
  auto whole = parse_as<WholeReport>(text, kMaxDepth);
  if (!whole) return whole.error();
  return std::move(whole->points);
}

}  // namespace profd
