#include "ctl/web/web_reply.h"

#include <utility>

#include "formats/api/error_json.h"

namespace profd {
namespace {

unsigned status_of(ErrorCode code) {
  switch (code) {
    case ErrorCode::kInvalidArgument:
    case ErrorCode::kMalformed:
      return 400;
    case ErrorCode::kPermissionDenied:
      return 403;
    case ErrorCode::kNotFound:
      return 404;
    case ErrorCode::kTimeout:
      return 408;
    case ErrorCode::kBusy:
      return 409;
    case ErrorCode::kTooLarge:
      return 413;
    case ErrorCode::kUnsupported:
      return 501;
    case ErrorCode::kUnavailable:
      return 503;
    default:
      return 500;
  }
}

}  // namespace

WebReply reply_of(const Error& error) {
  return {.status = status_of(error.code), .body = to_json(error)};
}

WebReply reply_of_text(Result<std::string> json) {
  if (!json) return reply_of(json.error());
  return {.body = std::move(*json)};
}

}  // namespace profd
