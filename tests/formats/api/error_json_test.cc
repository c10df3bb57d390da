#include "formats/api/error_json.h"

#include <string>

#include <gtest/gtest.h>

namespace profd {
namespace {

TEST(ErrorJson, TextIsAsTheDocumentSays) {
  EXPECT_EQ(
      to_json(fail(ErrorCode::kNotFound, "no process has pid 7", "look again")),
      R"({"error":{"code":"not_found","message":"no process has pid 7","hint":"look again"}})");
}

TEST(ErrorJson, AnErrorKeepsItsCodeMessageAndHint) {
  for (int code = 0; code <= static_cast<int>(ErrorCode::kInternal); ++code) {
    const Error error = parse_error(to_json(fail(static_cast<ErrorCode>(code), "what", "do this")));
    EXPECT_EQ(static_cast<int>(error.code), code);
    EXPECT_EQ(error.message, "what");
    EXPECT_EQ(error.hint, "do this");
  }
}

TEST(ErrorJson, ABodyThatIsNoErrorIsQuotedAndCutShort) {
  for (const std::string& body : {std::string(), std::string("<html>"), std::string(100000, 'x')}) {
    const Error error = parse_error(body);
    EXPECT_EQ(error.code, ErrorCode::kInternal);
    EXPECT_LT(error.message.size(), 300u);
  }
}

}  // namespace
}  // namespace profd
