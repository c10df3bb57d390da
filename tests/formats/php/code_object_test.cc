// Names of PHP's functions. Mutations: the class behind the name, a NUL that stays, a cut name
// that does not say so.

#include "formats/php/code_object.h"

#include <cstdint>
#include <string>
#include <string_view>

#include <gtest/gtest.h>

namespace profd {
namespace {

using std::string_view_literals::operator""sv;

std::string name_of_php(std::string_view name, std::string_view of_class, std::uint8_t cut = 0) {
  RawCode code{.kind = PROFD_RUNTIME_PHP, .layout = 16, .cut = cut};
  if (!name.empty()) code.texts[PROFD_CODE_NAME] = {name, PROFD_TEXT_BYTES};
  if (!of_class.empty()) code.texts[PROFD_CODE_QUALIFIER] = {of_class, PROFD_TEXT_BYTES};
  code.texts[PROFD_CODE_FILE] = {"/srv/index.php", PROFD_TEXT_BYTES};
  const DecodedCode decoded = decode_php_code(code);
  EXPECT_TRUE(is_valid(decoded));
  EXPECT_TRUE(decoded.lines.empty());
  EXPECT_EQ(decoded.file, "/srv/index.php");
  return decoded.name;
}

TEST(PhpCodeObjectTest, IsCalledByItsClassAndName) {
  EXPECT_EQ(name_of_php("run", ""), "run");
  EXPECT_EQ(name_of_php("run", "App\\Worker"), "App\\Worker::run");
  EXPECT_EQ(name_of_php("{closure}", "App"), "App::{closure}");
  EXPECT_EQ(name_of_php("", ""), "{main}");
  EXPECT_EQ(name_of_php("run", "class@anonymous\0/srv/index.php:3$0"sv), "class@anonymous::run");
  EXPECT_EQ(name_of_php("caf\xe9", ""), "caf\xef\xbf\xbd");
  EXPECT_EQ(name_of_php("run", "App", 1 << PROFD_CODE_NAME), "App::run...");
}

}  // namespace
}  // namespace profd
