#include "formats/base/log_text.h"

namespace profd {
namespace {

constexpr std::size_t kMaxBytes = 200;
constexpr std::string_view kDigits = "0123456789abcdef";

bool is_plain(char c) { return c >= ' ' && c <= '~' && c != '\\'; }

std::string escaped(char c) {
  const auto byte = static_cast<unsigned char>(c);
  return {'\\', 'x', kDigits[byte >> 4], kDigits[byte & 15]};
}

}  // namespace

std::string log_text(std::string_view text) {
  std::string out;
  for (const char c : text) {
    const std::string next = is_plain(c) ? std::string(1, c) : escaped(c);
    if (out.size() + next.size() > kMaxBytes) return out + "...";
    out += next;
  }
  return out;
}

}  // namespace profd
