#include "ctl/web/view_fields.h"

#include <string>
#include <utility>

#include "formats/base/errors.h"
#include "formats/proc/cgroup_path.h"

namespace profd {
namespace {

Result<void> read_numbers(const WebRequest& request, std::string_view name,
                          std::vector<std::uint32_t>& to) {
  for (const std::string& text : request.fields(name)) {
    const auto number = parse_field_number(name, text, 0xffffffff);
    if (!number) return number.error();
    to.push_back(static_cast<std::uint32_t>(*number));
  }
  return {};
}

Result<std::vector<std::string>> checked_patterns(const WebRequest& request,
                                                  std::string_view name) {
  auto patterns = request.fields(name);
  for (const std::string& pattern : patterns) {
    if (auto checked = check_pattern_of_names(pattern); !checked) return checked.error();
  }
  return patterns;
}

}  // namespace

Result<TimeRange> read_range(const WebRequest& request, const TimeRange& otherwise,
                             std::string_view prefix) {
  const std::string before(prefix);
  const auto since = request.number(before + "since", otherwise.since_ms, TimeRange::kEndMs);
  if (!since) return since.error();
  const auto until = request.number(before + "until", otherwise.until_ms, TimeRange::kEndMs);
  if (!until) return until.error();
  if (*since < *until) return TimeRange{.since_ms = *since, .until_ms = *until};
  return invalid_argument("the time range " +
                          fault_of_range({.since_ms = *since, .until_ms = *until}));
}

Result<TargetRequest> read_target(const WebRequest& request) {
  TargetRequest target;
  target.comms = request.fields("comm");
  target.cgroups = request.fields("cgroup");
  target.containers = request.fields("container");
  if (auto read = read_numbers(request, "pid", target.pids); !read) return read.error();
  if (auto read = read_numbers(request, "uid", target.uids); !read) return read.error();
  for (const std::string& unit : request.fields("unit")) {
    target.units.push_back(full_unit_name(unit));
  }
  if (auto checked = check_target(target); !checked) return checked.error();
  return target;
}

Result<SelectionPatterns> read_patterns(const WebRequest& request) {
  SelectionPatterns patterns;
  for (const auto& [name, to] :
       {std::pair("focus", &patterns.focus), std::pair("ignore", &patterns.ignore),
        std::pair("hide", &patterns.hide)}) {
    auto read = checked_patterns(request, name);
    if (!read) return read.error();
    *to = std::move(*read);
  }
  patterns.focus_names = request.fields("focus_name");
  patterns.hide_names = request.fields("hide_name");
  return patterns;
}

Result<ViewFields> read_view_fields(const WebRequest& request, const TimeRange& otherwise) {
  ViewFields fields;
  const auto range = read_range(request, otherwise);
  if (!range) return range.error();
  fields.range = *range;
  auto target = read_target(request);
  if (!target) return target.error();
  fields.target = std::move(*target);
  auto patterns = read_patterns(request);
  if (!patterns) return patterns.error();
  fields.patterns = std::move(*patterns);
  if (request.field("names") == "full") fields.names = NameForm::kFull;
  fields.has_idle = request.field("idle") == "1";
  if (const std::string by(request.field("by")); !by.empty()) {
    auto keys = parse_group_keys(by);
    if (!keys) return keys.error();
    fields.by = std::move(*keys);
  }
  return fields;
}

Error nothing_is_left() {
  return fail(ErrorCode::kNotFound, "no sample is left by the filters", "remove one of them");
}

}  // namespace profd
