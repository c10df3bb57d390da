#include "formats/base/base64.h"

#include <string>
#include <utility>
#include <vector>

#include <gtest/gtest.h>

namespace profd {
namespace {

// Those of RFC 4648, section 10, and the bytes of the last characters of the alphabet.
TEST(Base64, IsThatOfTheRfc) {
  for (const auto& [bytes, text] :
       std::vector<std::pair<std::string, std::string>>{{"", ""},
                                                        {"f", "Zg=="},
                                                        {"fo", "Zm8="},
                                                        {"foo", "Zm9v"},
                                                        {"foob", "Zm9vYg=="},
                                                        {"fooba", "Zm9vYmE="},
                                                        {"foobar", "Zm9vYmFy"},
                                                        {"\xfb\xff\xbf", "+/+/"},
                                                        {std::string(1, '\0'), "AA=="}}) {
    EXPECT_EQ(base64_text(bytes), text);
  }
}

}  // namespace
}  // namespace profd
