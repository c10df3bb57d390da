// The labels of a process's samples: by what samples are grouped and filtered.
//
// A label that does not apply is "-", so that grouping by it (pprof -tagroot) has no samples
// without the key. Used on a worker.

#pragma once

#include <compare>
#include <cstdint>
#include <map>
#include <span>
#include <string>
#include <string_view>

#include <boost/json/fwd.hpp>

#include "daemon/profiles/pod_directory.h"
#include "daemon/samples/snapshot.h"
#include "formats/base/result.h"
#include "formats/jit/runtimes.h"
#include "formats/proc/cgroup_path.h"
#include "formats/profile/pprof_profile.h"
#include "formats/profile/pprof_tables.h"

namespace profd {

inline constexpr const char* kNoLabel = "-";

struct ProcessLabels {
  std::uint32_t pid = 0;  // 0: samples of several processes, in the history of an hour
  std::string comm = kNoLabel;
  std::string unit = kNoLabel;  // the innermost systemd unit; numbers of sessions and runs are "#"
  std::string container = kNoLabel;  // the start of its id, or its name
  std::string pod = kNoLabel;        // of Kubernetes: "namespace/name"
  std::string user = kNoLabel;       // its name on this host, else "#UID"
  std::string runtime = kNoLabel;    // "nodejs", "java", "python", "php"

  friend auto operator<=>(const ProcessLabels&, const ProcessLabels&) = default;
};

[[nodiscard]] boost::json::value json_of(const ProcessLabels& labels);
[[nodiscard]] Result<void> read_json(const boost::json::value& value, ProcessLabels& out);

// The labels of samples in a profile. Other keys are left out.
[[nodiscard]] ProcessLabels labels_of(const PprofTables& tables,
                                      std::span<const PprofLabel> labels);
[[nodiscard]] ProcessLabels labels_of(const PprofProfile& profile, std::uint32_t label_set);

// The runtime with a JIT compiler or an interpreter that the process has mapped a file of. Null:
// none.
[[nodiscard]] const Runtime* runtime_of(const ProcessImage& image);

// By uid.
using UserNames = std::map<std::uint32_t, std::string>;

// From /etc/passwd alone: other sources of names may ask a network.
[[nodiscard]] UserNames read_user_names();

// `pods` null: pods have no names.
[[nodiscard]] ProcessLabels labels_of(const ProcessSnapshot& process, const UserNames& users,
                                      PodDirectory* pods = nullptr);
// Of a process of which no more is known.
[[nodiscard]] ProcessLabels labels_of(std::uint32_t pid, const std::string& comm,
                                      const CgroupOwner& owner);

// Adds all of them to a profile, with `more`, and `thread` if that is not empty. Returns the set's
// index.
std::uint32_t add_labels(PprofProfile& profile, const ProcessLabels& labels,
                         std::string_view thread = {}, std::span<const PprofLabel> more = {});

// "session-3.scope" and "run-u7.service" become "session-#.scope" and "run-#.service": each has the
// number of one run.
[[nodiscard]] std::string folded_unit(const std::string& unit);

}  // namespace profd
