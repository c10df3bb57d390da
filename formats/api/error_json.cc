#include "formats/api/error_json.h"

#include <algorithm>
#include <array>

#include "formats/base/json_members.h"

namespace profd {
namespace {

constexpr std::size_t kMaxQuotedBytes = 200;

struct CodeOfApi {
  std::string_view name;
  unsigned http_status;
};
// In the order of ErrorCode.
constexpr auto kCodes = std::to_array<CodeOfApi>({{"invalid_argument", 400},
                                                  {"not_found", 404},
                                                  {"permission_denied", 403},
                                                  {"unsupported", 501},
                                                  {"unavailable", 503},
                                                  {"malformed", 400},
                                                  {"too_large", 413},
                                                  {"timeout", 408},
                                                  {"busy", 409},
                                                  {"io", 500},
                                                  {"internal", 500}});
static_assert(kCodes.size() == static_cast<std::size_t>(ErrorCode::kInternal) + 1);

}  // namespace

// These functions are found by the types of their arguments, hence not in the unnamed namespace.

boost::json::value json_of(ErrorCode code) { return boost::json::value(error_code_name(code)); }

// A code that a newer daemon may have is read as kInternal.
Result<void> read_json(const boost::json::value& value, ErrorCode& out) {
  std::string name;
  if (auto read = read_json(value, name); !read) return read;
  const auto* const known = std::ranges::find(kCodes, name, &CodeOfApi::name);
  out =
      known == kCodes.end() ? ErrorCode::kInternal : static_cast<ErrorCode>(known - kCodes.begin());
  return {};
}

void members(auto& fields, Is<Error> auto& error) {
  fields.required("code", error.code)
      .required("message", error.message)
      .optional("hint", error.hint);
}

std::string to_json(const Error& error) {
  return json_text(boost::json::object{{"error", json_of(error)}});
}

Error parse_error(std::string_view text) {
  const auto value = parse_json(text, kMaxJsonDepth);
  Error error;
  if (value && JsonReader(*value).required("error", error).finish()) return error;
  const bool is_cut = text.size() > kMaxQuotedBytes;
  return fail(ErrorCode::kInternal, "profd answered \"" +
                                        std::string(text.substr(0, kMaxQuotedBytes)) +
                                        (is_cut ? "...\"" : "\""));
}

std::string_view error_code_name(ErrorCode code) {
  return kCodes.at(static_cast<std::size_t>(code)).name;
}

unsigned http_status_of(ErrorCode code) {
  return kCodes.at(static_cast<std::size_t>(code)).http_status;
}

}  // namespace profd
