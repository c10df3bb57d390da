// Any bytes as a name: a text of valid UTF-8 within its limit.

#include <cstddef>
#include <cstdint>
#include <string_view>

#include "formats/base/utf8_text.h"
#include "formats/symbols/code_names.h"
#include "formats/symbols/demangle.h"
#include "tests/fuzz/require.h"

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  const std::string_view name(reinterpret_cast<const char*>(data), size);
  const std::string shown = profd::shown_name(name);
  require(shown.size() <= profd::kMaxCodeNameBytes, "a name within its limit");
  require(profd::is_valid_utf8(shown), "a name of UTF-8");
  require(shown.empty() == name.empty(), "each name has one that is shown");
  return 0;
}
