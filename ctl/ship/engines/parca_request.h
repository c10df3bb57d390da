// ProfileStoreService/WriteRaw of Parca by its HTTP gateway (proto/parca/profilestore/v1alpha1/
// profilestore.proto; protobuf's JSON), and what its normalizer refuses.
//
//     {"series": [{"labels": {"labels": [{"name": "__name__", "value": "process_cpu"}, ...]},
//                  "samples": [{"rawProfile": BASE64_OF_GZIP}]}],
//      "normalized": true}
//
// Ids are 1 to n in order, which the writer of profile.proto makes. Parca keeps no labels of
// samples: those of the series alone count.

#pragma once

#include <string>
#include <string_view>

#include "ctl/ship/windows/window_split.h"
#include "formats/base/result.h"

namespace profd {

// kInvalidArgument: Parca would refuse the series. Names are as Prometheus wants them.
[[nodiscard]] Result<void> check_parca_labels(const SeriesLabels& labels);

// One series with one profile, a gzip file. Parca lists its agents by the label "node", which is
// that of the host if there is none.
[[nodiscard]] std::string encode_write_raw(const SeriesLabels& labels, std::string_view profile);

}  // namespace profd
