#include "formats/interpreters/text.h"

#include <cstdint>
#include <cstring>
#include <string_view>

#include "formats/base/utf8_text.h"

namespace profd {
namespace {

constexpr std::uint32_t kReplacement = 0xfffd;
constexpr std::uint32_t kLastCodePoint = 0x10ffff;

bool is_surrogate(std::uint32_t code_point) { return code_point >= 0xd800 && code_point <= 0xdfff; }

char continued(std::uint32_t bits) { return static_cast<char>(0x80U | (bits & 0x3fU)); }

void append_utf8(std::uint32_t code_point, std::string& text) {
  if (is_surrogate(code_point) || code_point > kLastCodePoint) code_point = kReplacement;
  if (code_point < 0x80) {
    text.push_back(static_cast<char>(code_point));
    return;
  }
  if (code_point < 0x800) {
    text.push_back(static_cast<char>(0xc0U | code_point >> 6U));
  } else if (code_point < 0x10000) {
    text.push_back(static_cast<char>(0xe0U | code_point >> 12U));
    text.push_back(continued(code_point >> 6U));
  } else {
    text.push_back(static_cast<char>(0xf0U | code_point >> 18U));
    text.push_back(continued(code_point >> 12U));
    text.push_back(continued(code_point >> 6U));
  }
  text.push_back(continued(code_point));
}

template <class Unit>
std::string utf8_of_units(std::string_view bytes) {
  std::string text;
  if (bytes.size() % sizeof(Unit) != 0) return text;
  text.reserve(bytes.size());
  for (std::size_t at = 0; at < bytes.size(); at += sizeof(Unit)) {
    Unit unit = 0;
    std::memcpy(&unit, bytes.data() + at, sizeof unit);
    if (unit == 0) break;
    append_utf8(unit, text);
  }
  return text;
}

}  // namespace

std::string utf8_of(const RawText& text) {
  switch (text.kind) {
    case PROFD_TEXT_LATIN_1:
      return utf8_of_units<std::uint8_t>(text.bytes);
    case PROFD_TEXT_UCS_2:
      return utf8_of_units<std::uint16_t>(text.bytes);
    case PROFD_TEXT_UCS_4:
      return utf8_of_units<std::uint32_t>(text.bytes);
    case PROFD_TEXT_BYTES:
      return valid_utf8(text.bytes.substr(0, text.bytes.find('\0')));
    default:
      return {};
  }
}

std::string utf8_of(const RawCode& code, profd_code_text text) {
  std::string decoded = utf8_of(code.texts[text]);
  const bool is_cut = (code.cut >> text & 1U) != 0;
  if (!decoded.empty() && is_cut) decoded += "...";
  return decoded;
}

}  // namespace profd
