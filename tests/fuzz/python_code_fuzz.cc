// Any bytes as a code object of each version of CPython: names that can be shown, and lines in
// order, as a child's answer has to have them.
//
// A seed: the layout, the kind of texts, the bits of those that are cut, the number of units, the
// sizes of name, qualified name and file, each a byte; then these texts, and the line table.

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <string_view>

#include "formats/python/code_object.h"
#include "tests/fuzz/require.h"

namespace {

constexpr std::size_t kHeadBytes = 7;

profd::RawCode code_of(std::string_view input) {
  const auto byte = [input](std::size_t at) { return static_cast<std::uint8_t>(input[at]); };
  profd::RawCode code;
  code.kind = PROFD_RUNTIME_PYTHON;
  code.layout = byte(0);
  code.cut = byte(2);
  code.units = byte(3) * 16U;
  code.first_line = byte(3);
  std::string_view rest = input.substr(kHeadBytes);
  for (std::size_t text = 0; text < PROFD_CODE_LINES; ++text) {
    const std::size_t size = std::min<std::size_t>(byte(4 + text), rest.size());
    code.texts[text] = {.bytes = rest.substr(0, size), .kind = byte(1)};
    rest.remove_prefix(size);
  }
  code.texts[PROFD_CODE_LINES] = {.bytes = rest.substr(0, PROFD_MAX_CODE_LINES_BYTES),
                                  .kind = PROFD_TEXT_BYTES};
  return code;
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  if (size < kHeadBytes) return 0;
  profd::RawCode code = code_of({reinterpret_cast<const char*>(data), size});
  for (std::uint8_t layout = 0; layout < 10; ++layout) {
    const profd::DecodedCode decoded = profd::decode_python_code(code);
    require(is_valid(decoded), "a valid code object");
    for (const std::uint32_t position : {0U, 1U, code.units, PROFD_NO_POSITION}) {
      (void)line_at(decoded, position);
    }
    code.layout = layout;
  }
  return 0;
}
