#include "formats/profile/pprof_reader.h"

#include <utility>

#include <protozero/pbf_reader.hpp>

#include "formats/base/gzip.h"
#include "formats/profile/pprof_format.h"
#include "formats/profile/pprof_merge.h"

namespace profd {

PprofResult<std::string> unpack_pprof(std::string_view file, std::size_t max_bytes) {
  if (!is_gzip(file)) {
    if (file.size() > max_bytes) return PprofRefusal::kTooLarge;
    return std::string(file);
  }
  Result<std::string> unpacked = unpack_gzip(file, max_bytes);
  if (unpacked) return std::move(*unpacked);
  if (unpacked.error().code == ErrorCode::kTooLarge) return PprofRefusal::kTooLarge;
  return is_cut_gzip(file, max_bytes) ? PprofRefusal::kCutGzip : PprofRefusal::kBadGzip;
}

PprofResult<std::string_view> find_own_data(std::string_view protobuf) {
  try {
    protozero::pbf_reader file(protobuf.data(), protobuf.size());
    while (file.next()) {
      const bool is_own = file.tag() == pprof::profile::kOwnData;
      if (is_own && file.wire_type() == protozero::pbf_wire_type::length_delimited) {
        const protozero::data_view bytes = file.get_view();
        return std::string_view(bytes.data(), bytes.size());
      }
      file.skip();
    }
  } catch (const protozero::exception&) {
    return PprofRefusal::kBadProtobuf;
  }
  return std::string_view();
}

PprofResult<PprofProfile> decode_pprof(std::string_view file, std::size_t max_bytes) {
  const PprofResult<std::string> protobuf = unpack_pprof(file, max_bytes);
  if (!protobuf) return protobuf.error();
  const PprofResult<PprofTables> tables = read_pprof_tables(*protobuf);
  if (!tables) return tables.error();
  PprofProfile profile = profile_of(*tables);
  profile.own_data = tables->own_data;
  return profile;
}

}  // namespace profd
