#include "ctl/ship/transport/http_auth.h"

#include <sys/stat.h>

#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <string>

#include <gmock/gmock.h>

namespace profd {
namespace {

using testing::HasSubstr;
using testing::Not;

class HttpAuthTest : public testing::Test {
 protected:
  HttpAuthTest() {
    std::string pattern = std::filesystem::temp_directory_path() / "auth-XXXXXX";
    directory_ = ::mkdtemp(pattern.data());
    path_ = directory_ / "secret";
  }
  ~HttpAuthTest() override { std::filesystem::remove_all(directory_); }

  void write(const std::string& text) const { std::ofstream(path_) << text; }
  [[nodiscard]] Result<std::string> bearer() const { return read_authorization({"", "", path_}); }
  [[nodiscard]] Result<std::string> basic() const {
    return read_authorization({"user", path_, ""});
  }

  std::filesystem::path directory_;
  std::string path_;
};

TEST_F(HttpAuthTest, ATokenLosesItsEndOfLine) {
  for (const char* end : {"", "\n", "\r\n", "\n\n"}) {
    write(std::string("a.b-c_d~e+f/g=") + end);
    EXPECT_EQ(*bearer(), "Bearer a.b-c_d~e+f/g=");
  }
  EXPECT_EQ(*read_authorization({}), "");
}

TEST_F(HttpAuthTest, APasswordIsEncoded) {
  write("open sesame\n");
  EXPECT_EQ(*basic(), "Basic dXNlcjpvcGVuIHNlc2FtZQ==");
  write("p\xc3\xa4ss");
  EXPECT_EQ(*basic(), "Basic dXNlcjpww6Rzcw==");
}

TEST_F(HttpAuthTest, WhatNoHeaderMayHaveIsRefusedAndNotShown) {
  for (const char* text : {"t0ken\nX: y", "t0ken\rx", "t0ken\x7f", "t0ken\tx"}) {
    write(text);
    for (const auto& read : {bearer(), basic()}) {
      ASSERT_FALSE(read) << text;
      EXPECT_THAT(read.error().message, HasSubstr(path_ + " has bytes that no header may have"));
      EXPECT_THAT(read.error().message + read.error().hint, Not(HasSubstr("t0ken")));
    }
  }
  for (const char* text : {"t0ken x", "t0ken\xc3\xa4"}) {
    write(text);
    ASSERT_FALSE(bearer()) << text;
    EXPECT_THAT(bearer().error().message + bearer().error().hint, Not(HasSubstr("t0ken")));
  }
}

TEST_F(HttpAuthTest, ASecretInATextIsReplaced) {
  EXPECT_EQ(without_secrets("invalid token t0ken, t0ken (Bearer t0ken)", "Bearer t0ken"),
            "invalid token [secret], [secret] ([secret])");
  const std::string basic = basic_authorization("user", "open sesame");
  EXPECT_EQ(without_secrets(basic + "|" + basic.substr(6) + "|user:open sesame", basic),
            "[secret]|[secret]|user:[secret]");
  EXPECT_EQ(without_secrets("any text", ""), "any text");
  EXPECT_EQ(without_secrets("e", basic_authorization("user", "e")), "[secret]");
}

TEST_F(HttpAuthTest, AFileThatIsNoneIsAnErrorWithARemedy) {
  EXPECT_EQ(bearer().error().code, ErrorCode::kNotFound);
  EXPECT_THAT(bearer().error().message, HasSubstr(path_));
  EXPECT_NE(bearer().error().hint, "");
  write("\n");
  EXPECT_THAT(bearer().error().message, HasSubstr("is empty"));
  write(std::string(8193, 'x'));
  EXPECT_EQ(bearer().error().code, ErrorCode::kTooLarge);
  write(std::string(8192, 'x'));
  EXPECT_TRUE(bearer());
  std::filesystem::remove(path_);
  ASSERT_EQ(::mkfifo(path_.c_str(), 0600), 0);
  EXPECT_THAT(bearer().error().message, HasSubstr("no regular file"));
}

}  // namespace
}  // namespace profd
