// Splits a window by service: each part becomes a series of an engine.
//
// A series has the labels of its processes. So a service whose processes run as two users is two
// series. Users choose the names of scopes and containers, so the number of series has a limit. The
// samples of a part lose their labels but "thread", since an engine would make a series of each set
// of them.

#pragma once

#include <cstddef>
#include <cstdint>
#include <map>
#include <string>
#include <vector>

#include "ctl/ship/windows/service_rules.h"
#include "formats/profile/pprof_merge.h"
#include "formats/profile/pprof_profile.h"
#include "formats/profile/pprof_tables.h"

namespace profd {

// Of a series, by name. Sorted, unique, valid UTF-8.
using SeriesLabels = std::map<std::string, std::string>;

inline constexpr const char* kServiceLabel = "service_name";
inline constexpr const char* kOtherServices = "other";

struct ServicePart {
  SeriesLabels labels;
  std::vector<std::uint32_t> samples;  // their indexes in the window
  std::uint32_t first = 0;             // the place of the first one among those of the series
};

struct SplitOptions {
  std::string host;
  std::size_t max_services = 200;
  std::vector<ServiceRule> rules;
};

struct WindowParts {
  std::vector<ServicePart> parts;         // sorted by labels
  std::uint64_t samples_dropped = 0;      // by a rule; rows of the window
  std::uint64_t services_over_limit = 0;  // they are in "other", which has their rows together
  std::uint64_t series_joined = 0;        // each with the others of its service, without labels
};

// Each sample is in one part, or dropped by a rule. The services with the fewest rows are "other"
// where there are too many. Where there are more than twice as many series as services are allowed,
// the services of the most series become one each, until the others fit.
[[nodiscard]] WindowParts split_window(const PprofTables& window, const SplitOptions& options);

enum class ThreadLabels : std::uint8_t { kKept, kDropped };

// The profile of a part. Without labels, the samples of all threads with one stack are added up.
//
// Its time is that of the window, and `first` nanoseconds more. Pyroscope takes two profiles of one
// series and time for one, and drops the second when it compacts its blocks (in its source,
// DedupeProfileRowIterator). So each part of a series has a time of its own, which is the same
// whenever it is sent.
[[nodiscard]] PprofProfile profile_of_part(PprofParts& window, const ServicePart& part,
                                           ThreadLabels threads = ThreadLabels::kKept);

// Removes the second half of the samples of a part with several, and returns it, with its place.
[[nodiscard]] ServicePart take_half(ServicePart& part);

}  // namespace profd
