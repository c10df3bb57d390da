#include "ctl/options/shown_argument.h"

#include "formats/base/utf8_text.h"

namespace profd {

std::string shortened(const std::string& argument) {
  constexpr std::size_t kMaxBytes = 60;
  return valid_utf8(argument, kMaxBytes);
}

std::string shown_argument(const std::string& argument) { return "'" + shortened(argument) + "'"; }

}  // namespace profd
