// The Authorization header of an endpoint. The file of the secret is read for each request, so that
// a changed one counts at once: that takes 20 us, and misses no change, unlike a check of its time.

#pragma once

#include <string>
#include <string_view>

#include "ctl/ship/transport/http_endpoint.h"
#include "formats/base/result.h"

namespace profd {

// "Basic ..." or "Bearer ..."; "": the endpoint has no secret. An error has the path, and nothing
// of the contents: the file can't be read, or has more than one line or 8 KiB, or bytes that a
// header may not have. Ends of lines at its end are left out.
[[nodiscard]] Result<std::string> read_authorization(const HttpAuth& auth);

// RFC 7617. The user has no colon.
[[nodiscard]] std::string basic_authorization(std::string_view user, std::string_view password);

// `text`, which comes from another host, with "[secret]" where it has `authorization`, the value of
// such a header, or the token or password in it. A secret that the other side has encoded is not
// found.
[[nodiscard]] std::string without_secrets(std::string text, std::string_view authorization);

}  // namespace profd
