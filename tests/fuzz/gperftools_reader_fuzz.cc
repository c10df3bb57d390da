// What decodes encodes again, and the copy says the same.

#include <algorithm>
#include <cstdint>
#include <string_view>

#include "formats/profile/gperftools_reader.h"
#include "formats/profile/gperftools_writer.h"
#include "tests/fuzz/require.h"

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  const std::string_view file(reinterpret_cast<const char*>(data), size);
  const auto profile = profd::decode_gperftools(file);
  const auto text = profd::text_offset(file);
  if (!profile) return 0;
  require(text && *text <= size, "the text list begins inside the file");
  const auto copy = profd::decode_gperftools(profd::encode_gperftools(*profile));
  require(copy.has_value(), "what was encoded decodes");
  require(copy->period == profile->period, "equal period");
  require(copy->samples() == profile->samples(), "equal samples");
  require(std::ranges::equal(copy->records(), profile->records()), "equal records");
  require(copy->mappings.size() <= profile->mappings.size(), "no mapping from nowhere");
  return 0;
}
