#include "formats/base/utf8_text.h"

#include <algorithm>
#include <array>
#include <cstdint>
#include <cstring>

#include <boost/nowide/utf/utf.hpp>

namespace profd {
namespace {

constexpr std::string_view kCut = "...";
constexpr std::string_view kReplacement = "\xef\xbf\xbd";  // U+FFFD

// The bytes at the start that are ASCII, eight at a time: nearly all names are nothing else.
std::size_t ascii_prefix(std::string_view text) {
  constexpr std::uint64_t kHighBits = 0x8080808080808080;
  std::size_t at = 0;
  for (std::uint64_t word = 0; at + sizeof word <= text.size(); at += sizeof word) {
    std::memcpy(&word, text.data() + at, sizeof word);
    if ((word & kHighBits) != 0) break;
  }
  while (at < text.size() && static_cast<unsigned char>(text[at]) < 0x80) ++at;
  return at;
}

// The same for ASCII without control characters, or less: it stops at some others too.
std::size_t printable_ascii_prefix(std::string_view text) {
  constexpr std::uint64_t kHighBits = 0x8080808080808080;
  constexpr std::uint64_t kEachByte = 0x0101010101010101;
  std::size_t at = 0;
  for (std::uint64_t word = 0; at + sizeof word <= text.size(); at += sizeof word) {
    std::memcpy(&word, text.data() + at, sizeof word);
    const std::uint64_t below_blank = word - kEachByte * 0x20;
    const std::uint64_t above_tilde = word + kEachByte;
    if (((word | below_blank | above_tilde) & kHighBits) != 0) break;
  }
  return at;
}

bool is_inside_character(char byte) { return (static_cast<unsigned char>(byte) & 0xc0) == 0x80; }

// Moves `at` behind a character. False: there is none, and `at` stays.
bool skip_character(const char*& at, const char* end) {
  namespace utf = boost::nowide::utf;
  const char* after = at;
  const utf::code_point decoded = utf::utf_traits<char>::decode(after, end);
  if (decoded == utf::illegal || decoded == utf::incomplete) return false;
  at = after;
  return true;
}

// A malformed sequence is one byte, and up to three after it that can only be inside a character.
std::string repaired(std::string_view text) {
  std::string valid;
  const char* at = text.data();
  const char* const end = at + text.size();
  while (at != end) {
    const char* const start = at;
    if (skip_character(at, end)) {
      valid.append(start, at);
      continue;
    }
    valid += kReplacement;
    for (++at; at != end && at - start < 4 && is_inside_character(*at); ++at) continue;
  }
  return valid;
}

bool is_control(char c) { return static_cast<unsigned char>(c) < 0x20 || c == 0x7f; }

struct CharacterRange {
  std::uint32_t first;
  std::uint32_t last;
};

// C1, and of the category Cf (and Zl, Zp) those of which a terminal shows an effect at most.
constexpr std::array<CharacterRange, 9> kLongControls = {{
    {0x80, 0x9f},        // C1
    {0xad, 0xad},        // soft hyphen
    {0x61c, 0x61c},      // Arabic letter mark
    {0x200b, 0x200f},    // zero width, marks of direction
    {0x2028, 0x202e},    // ends of lines, embeddings and overrides of direction
    {0x2060, 0x206f},    // invisible operators, isolates of direction
    {0xfeff, 0xfeff},    // byte order mark
    {0xfff9, 0xfffb},    // annotations
    {0xe0000, 0xe007f},  // tags
}};

// The bytes of the control character at `at`; 0: there is none.
std::size_t control_bytes(std::string_view text, std::size_t at) {
  namespace utf = boost::nowide::utf;
  if (is_control(text[at])) return 1;
  if (static_cast<unsigned char>(text[at]) < 0x80) return 0;
  const char* after = text.data() + at;
  const utf::code_point decoded = utf::utf_traits<char>::decode(after, text.data() + text.size());
  const bool is_long = std::ranges::any_of(kLongControls, [decoded](const CharacterRange& range) {
    return decoded >= range.first && decoded <= range.last;
  });
  return is_long ? static_cast<std::size_t>(after - text.data()) - at : 0;
}

}  // namespace

bool is_valid_utf8(std::string_view text) {
  const char* at = text.data() + ascii_prefix(text);
  const char* const end = text.data() + text.size();
  while (at != end) {
    if (!skip_character(at, end)) return false;
  }
  return true;
}

std::string valid_utf8(std::string_view text) {
  return is_valid_utf8(text) ? std::string(text) : repaired(text);
}

std::string valid_utf8(std::string_view text, std::size_t max_bytes) {
  // A malformed sequence of at most 4 bytes becomes 3, so this is still too long afterwards.
  std::string valid = valid_utf8(text.substr(0, 4 * max_bytes));
  if (valid.size() <= max_bytes) return valid;
  std::size_t kept = max_bytes - kCut.size();
  while (kept > 0 && is_inside_character(valid[kept])) --kept;
  valid.resize(kept);
  return valid.append(kCut);
}

bool has_controls(std::string_view text) {
  for (std::size_t i = 0; i < text.size(); ++i) {
    if (control_bytes(text, i) != 0) return true;
  }
  return false;
}

bool is_printable(std::string_view text) {
  text.remove_prefix(printable_ascii_prefix(text));
  return is_valid_utf8(text) && !has_controls(text);
}

std::string printable_utf8(std::string_view text, std::size_t max_bytes) {
  if (text.size() <= max_bytes && is_printable(text)) return std::string(text);
  return without_controls(valid_utf8(text, max_bytes));
}

std::string without_controls(std::string_view text) {
  std::string shown;
  shown.reserve(text.size());
  for (std::size_t i = 0; i < text.size();) {
    const std::size_t control = control_bytes(text, i);
    shown.push_back(control != 0 ? '?' : text[i]);
    i += std::max<std::size_t>(control, 1);
  }
  return shown;
}

}  // namespace profd
