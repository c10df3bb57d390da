// Encodes a profile as profile.proto. pprof_format.h has the fields and their order.
//
// Equal profiles become equal bytes: pprof_order.h has the order of the entries.

#pragma once

#include <string>
#include <string_view>

#include "formats/profile/pprof_profile.h"
#include "formats/profile/pprof_tables.h"

namespace profd {

[[nodiscard]] std::string encode_pprof(const PprofProfile& profile);

// The tables as they are, in their order; each location needs a line.
[[nodiscard]] std::string encode_pprof_tables(const PprofTables& tables);

// Adds own data to a profile that was encoded without any.
void add_own_data(std::string& encoded, std::string_view own_data);

// encode_pprof() as a gzip file: a .pb.gz.
[[nodiscard]] std::string encode_pprof_gzip(const PprofProfile& profile);

}  // namespace profd
