#include "ctl/web/web_request.h"

#include <algorithm>
#include <charconv>

#include "formats/base/errors.h"

namespace profd {
namespace {

constexpr std::size_t kMaxFields = 256;

// "a%20b+c" is "a b c" in a field.
Result<std::string> decode_field(std::string_view text) {
  std::string decoded;
  decoded.reserve(text.size());
  for (std::size_t i = 0; i < text.size(); ++i) {
    if (text[i] == '+') {
      decoded += ' ';
    } else if (text[i] != '%') {
      decoded += text[i];
    } else {
      unsigned byte = 0;
      const std::string_view digits = text.substr(i + 1, 2);
      const char* const end = digits.data() + digits.size();
      const auto [at, error] = std::from_chars(digits.data(), end, byte, 16);
      if (digits.size() != 2 || error != std::errc() || at != end) {
        return invalid_argument("the address has an invalid escape");
      }
      decoded += static_cast<char>(byte);
      i += 2;
    }
  }
  return decoded;
}

}  // namespace

Result<std::uint64_t> parse_field_number(std::string_view name, std::string_view text,
                                         std::uint64_t most) {
  std::uint64_t value = 0;
  const char* const end = text.data() + text.size();
  const auto [at, error] = std::from_chars(text.data(), end, value);
  if (error == std::errc() && at == end && value <= most) return value;
  return invalid_argument("invalid " + std::string(name) + " '" + std::string(text.substr(0, 64)) +
                          "' (0 to " + std::to_string(most) + ")");
}

Result<WebRequest> WebRequest::parse(std::string_view target) {
  WebRequest request;
  const std::size_t mark = std::min(target.find('?'), target.size());
  auto path = decode_field(target.substr(0, mark));
  if (!path) return path.error();
  request.path_ = std::move(*path);
  for (std::size_t at = mark + 1; at < target.size();) {
    const std::size_t end = std::min(target.find('&', at), target.size());
    const std::string_view one = target.substr(at, end - at);
    at = end + 1;
    if (one.empty()) continue;
    if (request.fields_.size() == kMaxFields) return invalid_argument("too many fields");
    const std::size_t equals = std::min(one.find('='), one.size());
    auto name = decode_field(one.substr(0, equals));
    if (!name) return name.error();
    auto value = decode_field(one.substr(std::min(equals + 1, one.size())));
    if (!value) return value.error();
    request.fields_.emplace_back(std::move(*name), std::move(*value));
  }
  return request;
}

std::string_view WebRequest::field(std::string_view name) const {
  for (const auto& [known, value] : fields_) {
    if (known == name) return value;
  }
  return {};
}

std::vector<std::string> WebRequest::fields(std::string_view name) const {
  std::vector<std::string> values;
  for (const auto& [known, value] : fields_) {
    if (known == name) values.push_back(value);
  }
  return values;
}

Result<std::uint64_t> WebRequest::number(std::string_view name, std::uint64_t otherwise,
                                         std::uint64_t most) const {
  const std::string_view text = field(name);
  return text.empty() ? Result<std::uint64_t>(otherwise) : parse_field_number(name, text, most);
}

}  // namespace profd
