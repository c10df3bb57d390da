// Any line of /proc/PID/maps.

#include <cstdint>
#include <string_view>

#include "formats/proc/maps.h"
#include "tests/fuzz/require.h"

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  const auto line = profd::parse_maps_line({reinterpret_cast<const char*>(data), size});
  if (!line) return 0;
  require(line->start < line->end, "a mapping isn't empty");
  require(line->permissions.size() == 4, "four permissions");
  require(line->path.size() <= size, "a path is no longer than its line");
  return 0;
}
