// What a request of the page asks for: fields with the names of profctl's options.
//
//     since, until               milliseconds since 1970; absent: those of the command line
//     pid, comm, unit, container, cgroup, uid          targets, each as often as needed
//     focus, ignore, hide        regular expressions; focus_name, hide_name: names as they are
//     names                      short or full
//     by                         as --by
//     idle                       1: as --idle

#pragma once

#include <string_view>
#include <vector>

#include "ctl/views/group_key.h"
#include "ctl/views/selection.h"
#include "ctl/views/short_names.h"
#include "ctl/web/web_request.h"
#include "formats/api/history_api.h"
#include "formats/base/result.h"

namespace profd {

struct ViewFields {
  TimeRange range;
  TargetRequest target;
  SelectionPatterns patterns;
  NameForm names = NameForm::kShort;
  bool has_idle = false;  // threads that wait all the time
  std::vector<GroupKey> by{GroupKey::kFunction};
};

// `prefix` stands before since and until: "base_" is for the range that another is compared with.
[[nodiscard]] Result<TimeRange> read_range(const WebRequest& request, const TimeRange& otherwise,
                                           std::string_view prefix = {});
[[nodiscard]] Result<TargetRequest> read_target(const WebRequest& request);
[[nodiscard]] Result<SelectionPatterns> read_patterns(const WebRequest& request);
[[nodiscard]] Result<ViewFields> read_view_fields(const WebRequest& request,
                                                  const TimeRange& otherwise);

// kNotFound: of a view or file without any sample.
[[nodiscard]] Error nothing_is_left();

}  // namespace profd
