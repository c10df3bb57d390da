#include "formats/base/utf8_repair.h"

#include <boost/nowide/utf/utf.hpp>

#include "formats/base/utf8_text.h"

namespace profd {

// convert_string() of Boost.Nowide also drops the valid byte that ends a malformed sequence.
std::string repaired_utf8(std::string_view text) {
  namespace utf = boost::nowide::utf;
  if (is_valid_utf8(text)) return std::string(text);
  std::string repaired;
  const char* at = text.data();
  const char* const end = at + text.size();
  while (at != end) {
    const char* const start = at;
    const utf::code_point decoded = utf::utf_traits<char>::decode(at, end);
    if (decoded == utf::illegal || decoded == utf::incomplete) {
      repaired += "\xef\xbf\xbd";
      at = start + 1;
    } else {
      repaired.append(start, at);
    }
  }
  return repaired;
}

}  // namespace profd
