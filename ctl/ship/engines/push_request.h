// push.v1.PushRequest, which Grafana Pyroscope takes by HTTP (its api/push/v1/push.proto and
// api/types/v1/types.proto), and the limits that its validation has by default.
//
//     PushRequest      = { 1: RawProfileSeries }
//     RawProfileSeries = { 1: LabelPair } { 2: RawSample }
//     LabelPair        = 1: name, 2: value
//     RawSample        = 1: profile.proto, gzip or plain; 2: id, a UUID

#pragma once

#include <string>
#include <string_view>

#include "ctl/ship/transport/push_client.h"
#include "ctl/ship/windows/window_split.h"
#include "formats/base/result.h"

namespace profd {

// kInvalidArgument: the labels are over a limit, and Pyroscope would refuse the series.
[[nodiscard]] Result<void> check_labels(const SeriesLabels& labels);

// One series with one profile. `id` is a UUID.
[[nodiscard]] std::string encode_push_request(const SeriesLabels& labels, std::string_view profile,
                                              std::string_view id);

// The request with that body, packed by gzip. `tenant` "": no tenant.
[[nodiscard]] PushMessage pyroscope_message(const std::string& tenant, std::string_view body);

// A random one (RFC 9562, version 4).
[[nodiscard]] std::string make_uuid();

}  // namespace profd
