#include "formats/api/error_json.h"

#include <algorithm>
#include <array>
#include <utility>

#include "formats/base/json_fields.h"

namespace profd {
namespace {

namespace json = boost::json;

constexpr std::size_t kMaxDepth = 12;
constexpr std::size_t kMaxQuotedBytes = 200;

constexpr auto kErrorCodes = std::to_array<std::pair<ErrorCode, std::string_view>>({
    {ErrorCode::kInvalidArgument, "invalid_argument"},
    {ErrorCode::kNotFound, "not_found"},
    {ErrorCode::kPermissionDenied, "permission_denied"},
    {ErrorCode::kUnsupported, "unsupported"},
    {ErrorCode::kUnavailable, "unavailable"},
    {ErrorCode::kMalformed, "malformed"},
    {ErrorCode::kTooLarge, "too_large"},
    {ErrorCode::kTimeout, "timeout"},
    {ErrorCode::kBusy, "busy"},
    {ErrorCode::kIo, "io"},
    {ErrorCode::kInternal, "internal"},
});

std::string quoted(std::string_view body) {
  return "\"" + std::string(body.substr(0, kMaxQuotedBytes)) +
         (body.size() > kMaxQuotedBytes ? "...\"" : "\"");
}

}  // namespace

std::string to_json(const Error& error) {
  return json_text(json::object{{"error", json::object{{"code", error_code_name(error.code)},
                                                       {"message", error.message},
                                                       {"hint", error.hint}}}});
}

Error parse_error(std::string_view text) {
  Error unreadable = fail(ErrorCode::kInternal, "profd answered " + quoted(text));
  const auto value = parse_json(text, kMaxDepth);
  const auto* const object = value ? value->if_object() : nullptr;
  const auto* const inner = object != nullptr ? object->if_contains("error") : nullptr;
  if (inner == nullptr) return unreadable;
  std::string code;
  Error error;
  const auto read = JsonFields(*inner)
                        .required("code", code)
                        .required("message", error.message)
                        .optional("hint", error.hint)
                        .finish();
  if (!read) return unreadable;
  const auto* const known =
      std::ranges::find(kErrorCodes, code, &decltype(kErrorCodes)::value_type::second);
  error.code = known == kErrorCodes.end() ? ErrorCode::kInternal : known->first;
  return error;
}

std::string_view error_code_name(ErrorCode code) {
  const auto* const known =
      std::ranges::find(kErrorCodes, code, &decltype(kErrorCodes)::value_type::first);
  return known == kErrorCodes.end() ? "internal" : known->second;
}

}  // namespace profd
