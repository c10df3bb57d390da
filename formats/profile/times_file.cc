#include "formats/profile/times_file.h"

#include <utility>

#include <boost/endian/conversion.hpp>

#include "formats/base/cursor.h"
#include "formats/base/errors.h"

namespace profd {

std::string encode_times_file(const TimesFile& file) {
  const auto start = boost::endian::native_to_little(static_cast<std::uint64_t>(file.start_ns));
  std::string bytes(reinterpret_cast<const char*>(&start), sizeof start);
  return bytes += encode_sample_times(file.times);
}

Result<TimesFile> decode_times_file(std::string_view bytes) {
  Cursor cursor(bytes);
  const auto start = static_cast<std::int64_t>(cursor.read<std::uint64_t>());
  const std::string_view rest = cursor.read_bytes(cursor.remaining());
  if (!cursor.ok() || start < 0) return malformed("the start of the times is missing");
  auto times = decode_sample_times(rest);
  if (!times) return times.error();
  return TimesFile{.start_ns = start, .times = std::move(*times)};
}

}  // namespace profd
