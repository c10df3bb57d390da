#include "ctl/web/web_reply.h"

#include <utility>

#include "formats/api/error_json.h"

namespace profd {

WebReply reply_of(const Error& error) {
  return {.status = http_status_of(error.code), .body = to_json(error)};
}

WebReply reply_of_text(Result<std::string> json) {
  if (!json) return reply_of(json.error());
  return {.body = std::move(*json)};
}

}  // namespace profd
