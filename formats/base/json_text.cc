#include "formats/base/json_text.h"

#include <array>
#include <charconv>

#include <boost/json/parser.hpp>
#include <boost/json/serialize.hpp>

#include "formats/base/errors.h"
#include "formats/base/utf8_text.h"

namespace profd {
namespace {

namespace json = boost::json;

void append(std::string& out, const json::value& value);

void append(std::string& out, std::string_view text) {
  out += json::serialize(json::string_view(valid_utf8(text)));
}

void append(std::string& out, double number) {
  std::array<char, 32> digits;
  const auto end = std::to_chars(digits.data(), digits.data() + digits.size(), number).ptr;
  out.append(digits.data(), end);
}

void append(std::string& out, const json::array& array) {
  char before = '[';
  for (const json::value& element : array) {
    out += before;
    append(out, element);
    before = ',';
  }
  out += array.empty() ? "[]" : "]";
}

void append(std::string& out, const json::object& object) {
  char before = '{';
  for (const json::key_value_pair& member : object) {
    out += before;
    append(out, std::string_view(member.key()));
    out += ':';
    append(out, member.value());
    before = ',';
  }
  out += object.empty() ? "{}" : "}";
}

void append(std::string& out, const json::value& value) {
  switch (value.kind()) {
    case json::kind::object:
      return append(out, value.get_object());
    case json::kind::array:
      return append(out, value.get_array());
    case json::kind::string:
      return append(out, std::string_view(value.get_string()));
    case json::kind::double_:
      return append(out, value.get_double());
    default:
      out += json::serialize(value);
  }
}

}  // namespace

std::string json_text(const json::value& value) {
  std::string out;
  append(out, value);
  return out;
}

Result<json::value> parse_json(std::string_view text, std::size_t max_depth) {
  json::parse_options options;
  options.max_depth = max_depth;
  json::parser parser({}, options);
  boost::system::error_code error;
  const std::size_t read = parser.write_some(text.data(), text.size(), error);
  if (!error && text.find_first_not_of(" \t\r\n", read) != std::string_view::npos) {
    error = json::error::extra_data;
  }
  if (!error) return parser.release();
  return malformed("invalid JSON at offset " + std::to_string(read) + ": " + error.message());
}

}  // namespace profd
