#include "formats/base/base64.h"

#include <sodium/utils.h>

namespace profd {

std::string base64_text(std::string_view bytes) {
  constexpr int kForm = sodium_base64_VARIANT_ORIGINAL;
  std::string text(::sodium_base64_encoded_len(bytes.size(), kForm), '\0');
  (void)::sodium_bin2base64(text.data(), text.size(),
                            reinterpret_cast<const unsigned char*>(bytes.data()), bytes.size(),
                            kForm);
  text.pop_back();  // the zero at its end
  return text;
}

}  // namespace profd
