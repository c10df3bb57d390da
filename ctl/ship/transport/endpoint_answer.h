// Reads an answer of HTTP/1 from a connection, of any other side: the header is bounded, and of the
// body the beginning is read.

#pragma once

#include <cstdint>
#include <string>

#include "ctl/ship/transport/net_stream.h"
#include "ctl/ship/transport/net_wait.h"
#include "formats/base/result.h"

namespace profd {

struct EndpointAnswer {
  unsigned status = 0;  // not 1xx, but for 101
  std::string content_type;
  std::string retry_after;
  std::string location;
  std::string body;          // its beginning
  bool is_reusable = false;  // the connection: the answer was whole, and nothing follows it
};

enum class AnsweredRequest : std::uint8_t { kPost, kConnect };

// The limit is that of the whole answer. An answer whose body breaks off is one too. Errors are
// those of NetStream, and kMalformed: it is not HTTP; kUnsupported: it is TLS, so that the other
// side has not understood the request.
[[nodiscard]] Result<EndpointAnswer> read_endpoint_answer(NetStream& stream, const WaitLimit& limit,
                                                          AnsweredRequest request);

}  // namespace profd
