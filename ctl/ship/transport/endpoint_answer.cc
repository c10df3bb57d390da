#include "ctl/ship/transport/endpoint_answer.h"

#include <array>
#include <optional>

#include <boost/beast/core/flat_buffer.hpp>
#include <boost/beast/http/buffer_body.hpp>
#include <boost/beast/http/error.hpp>
#include <boost/beast/http/parser.hpp>

#include "formats/base/errors.h"

namespace profd {
namespace {

namespace beast = boost::beast;
namespace http = boost::beast::http;
using boost::system::error_code;
using AnswerParser = http::response_parser<http::buffer_body>;

constexpr std::size_t kMaxAnswerBytes = std::size_t{4} << 10;  // what is read of its body
constexpr std::uint32_t kMaxAnswerHeader = 16U << 10;
// The header of a chunk may be long, too.
constexpr std::size_t kMaxBufferBytes = std::size_t{64} << 10;
constexpr std::size_t kReadAtOnce = std::size_t{8} << 10;
constexpr int kMaxInterimAnswers = 8;
constexpr char kTlsAlert = 0x15;

std::string text_of(beast::string_view text) { return {text.data(), text.size()}; }

class AnswerReader {
 public:
  AnswerReader(NetStream& stream, const WaitLimit& limit) : stream_(stream), limit_(limit) {}

  Result<EndpointAnswer> read(AnsweredRequest request) {
    // "100 Continue" and the like come before the answer.
    for (int i = 0; i < kMaxInterimAnswers; ++i) {
      AnswerParser parser;
      const auto error = read_one(parser, request == AnsweredRequest::kConnect);
      if (!parser.is_header_done()) {
        return error.value_or(fail(ErrorCode::kInternal, "the parser has no header"));
      }
      const unsigned status = parser.get().result_int();
      if (status / 100 != 1 || status == 101) return answer_of(parser);
    }
    return malformed("it sends interim answers without end");
  }

 private:
  // Until the answer is whole, or its body over the limit. What ends it before is returned.
  std::optional<Error> read_one(AnswerParser& parser, bool is_without_body) {
    parser.header_limit(kMaxAnswerHeader);
    parser.body_limit(boost::none);
    parser.eager(true);
    parser.skip(is_without_body);
    parser.get().body().data = body_.data();
    parser.get().body().size = body_.size();
    bool has_new_bytes = buffer_.size() > 0;
    while (!parser.is_done()) {
      if (!has_new_bytes) {
        const auto count = receive();
        if (!count) return count.error();
        if (*count == 0) return end(parser);
      }
      has_new_bytes = false;
      if (is_tls(parser)) {
        return fail(ErrorCode::kUnsupported, "it speaks TLS there", "give an https url");
      }
      error_code error;
      buffer_.consume(parser.put(buffer_.data(), error));
      if (error && error != http::error::need_more) return explain(error);
    }
    return std::nullopt;
  }

  Result<std::size_t> receive() {
    if (buffer_.size() + kReadAtOnce > kMaxBufferBytes) {
      return malformed("its answer has an endless line");
    }
    const auto space = buffer_.prepare(kReadAtOnce);
    auto count = stream_.receive({static_cast<char*>(space.data()), space.size()}, limit_);
    if (count) buffer_.commit(*count);
    return count;
  }

  // The other side has closed the connection.
  static std::optional<Error> end(AnswerParser& parser) {
    error_code error;
    if (parser.got_some()) parser.put_eof(error);
    if (parser.got_some() && !error) return std::nullopt;
    return fail(ErrorCode::kUnavailable, "it closed the connection");
  }

  bool is_tls(const AnswerParser& parser) const {
    return !parser.got_some() && buffer_.size() > 0 &&
           *static_cast<const char*>(buffer_.data().data()) == kTlsAlert;
  }

  static Error explain(const error_code& error) {
    if (error == http::error::header_limit) return malformed("its answer has a huge header");
    return fail(ErrorCode::kMalformed, "it does not answer by HTTP: " + error.message(),
                "check the url of the endpoint");
  }

  EndpointAnswer answer_of(AnswerParser& parser) const {
    const auto& header = parser.get();
    EndpointAnswer answer;
    answer.status = header.result_int();
    answer.content_type = text_of(header[http::field::content_type]);
    answer.retry_after = text_of(header[http::field::retry_after]);
    answer.location = text_of(header[http::field::location]);
    answer.body.assign(body_.data(), body_.size() - header.body().size);
    answer.is_reusable = parser.is_done() && parser.keep_alive() && buffer_.size() == 0;
    return answer;
  }

  NetStream& stream_;
  const WaitLimit& limit_;
  beast::flat_buffer buffer_;
  std::array<char, kMaxAnswerBytes> body_{};
};

}  // namespace

Result<EndpointAnswer> read_endpoint_answer(NetStream& stream, const WaitLimit& limit,
                                            AnsweredRequest request) {
  return AnswerReader(stream, limit).read(request);
}

}  // namespace profd
