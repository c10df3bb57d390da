// ExportProfilesServiceRequest, which receivers of OTLP take by HTTP.
//
// The form is that of opentelemetry-proto at revision ac2c4b5, opentelemetry/proto/profiles/
// v1development/profiles.proto, where it is called alpha: later revisions may differ, so all of
// this is experimental.
//
//     Request            = 1: ResourceProfiles, 2: ProfilesDictionary
//     ResourceProfiles   = 1: Resource, 2: ScopeProfiles
//     ScopeProfiles      = 1: InstrumentationScope, 2: { Profile }
//     Profile            = 1: ValueType, 2: { Sample }, 3: time, 4: duration, 5: ValueType of the
//                          period, 6: period
//     Sample             = 1: stack, 2: { attribute }, 4: { value }
//     ProfilesDictionary = 1: mappings, 2: locations, 3: functions, 4: links, 5: strings,
//                          6: attributes, 7: stacks
//
// Entries refer to each other by index, and entry 0 of each table is the one without content,
// which stands for a missing one; that of links has ids of zeros.

#pragma once

#include <cstdint>
#include <string>
#include <string_view>

#include "ctl/ship/windows/window_split.h"
#include "formats/base/result.h"
#include "formats/profile/pprof_profile.h"

namespace profd {

// One resource with one profile. The labels are attributes of the resource, by the names of the
// semantic conventions ("service.name", "host.name", ...); those that have none keep theirs. The
// label "thread" of samples is the attribute "thread.name".
//
// CPU time goes as OpenTelemetry's profiler sends it: the samples, and their period. Times of
// blocks (off_cpu, runnable, wall) go without their number and without a period, as Pyroscope knows
// off_cpu. Of another event, each sample type is a Profile.
[[nodiscard]] std::string encode_otlp_request(const SeriesLabels& labels, PprofProfile profile);

// ExportProfilesPartialSuccess.
struct OtlpRejection {
  std::int64_t profiles = 0;  // 0: none
  std::string message;
  bool is_malformed = false;  // the answer; it may have been cut
};

// Of ExportProfilesServiceResponse. A malformed answer has what comes before the malformed place.
[[nodiscard]] OtlpRejection read_otlp_rejection(std::string_view answer);

}  // namespace profd
