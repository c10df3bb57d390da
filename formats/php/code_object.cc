#include "formats/php/code_object.h"

#include <string>

#include "formats/interpreters/text.h"

namespace profd {

DecodedCode decode_php_code(const RawCode& code) {
  DecodedCode decoded{
      .name = utf8_of(code, PROFD_CODE_NAME), .file = utf8_of(code, PROFD_CODE_FILE), .lines = {}};
  if (decoded.name.empty()) decoded.name = "{main}";
  // Of an anonymous class the part before a NUL: "class@anonymous".
  const std::string of_class = utf8_of(code, PROFD_CODE_QUALIFIER);
  if (!of_class.empty()) decoded.name = of_class + "::" + decoded.name;
  return decoded;
}

}  // namespace profd
