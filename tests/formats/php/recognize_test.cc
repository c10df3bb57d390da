// PHP in ELF files: that of this host, and copies of it with one thing wrong.

#include "formats/php/recognize.h"

#include <fcntl.h>
#include <sys/mman.h>
#include <unistd.h>

#include <array>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <string>
#include <string_view>

#include <gtest/gtest.h>
#include <stdio.h>

#include "formats/base/unique_fd.h"
#include "formats/elf/exported_symbols.h"
#include "formats/php/layouts.h"
#include "tests/formats/python/made_python.h"

namespace profd::test {
namespace {

namespace fs = std::filesystem;

FoundRuntime recognized_php(int fd) {
  const auto file = CodeFile::open(fd);
  EXPECT_TRUE(file);
  if (!file) return {};
  const auto found = recognize_php(*file);
  EXPECT_TRUE(found);
  EXPECT_TRUE(is_valid(*found));
  return *found;
}

FoundRuntime recognized_php(const std::string& bytes) {
  const UniqueFd fd(::memfd_create("php", MFD_CLOEXEC));
  EXPECT_EQ(::write(fd.get(), bytes.data(), bytes.size()), static_cast<ssize_t>(bytes.size()));
  return recognized_php(fd.get());
}

// What the interpreter prints; empty: there is none.
std::string php_output(const std::string& code) {
  std::string text;
  FILE* const pipe = ::popen(("php -n -r '" + code + "' 2>/dev/null").c_str(), "r");
  if (pipe == nullptr) return text;
  std::array<char, 256> part;
  while (::fgets(part.data(), static_cast<int>(part.size()), pipe) != nullptr) text += part.data();
  ::pclose(pipe);
  return text;
}

class RecognizePhpTest : public testing::Test {
 protected:
  void SetUp() override {
    program_ = php_output("echo PHP_BINARY;");
    ASSERT_FALSE(program_.empty());
    std::ifstream file(fs::canonical(program_), std::ios::binary);
    bytes_.assign(std::istreambuf_iterator<char>(file), std::istreambuf_iterator<char>());
  }

  // The file with each `from` replaced by a text of the same length.
  [[nodiscard]] std::string changed(std::string_view from, std::string_view to) const {
    EXPECT_EQ(from.size(), to.size());
    std::string copy = bytes_;
    for (std::size_t at = copy.find(from); at != copy.npos; at = copy.find(from, at + 1)) {
      copy.replace(at, from.size(), to);
    }
    return copy;
  }

  std::string program_;
  std::string bytes_;
};

// The interpreter itself is the oracle of its version.
TEST_F(RecognizePhpTest, TheInterpreterOfThisHostIsRecognized) {
  const FoundRuntime found = recognized_php(bytes_);
  ASSERT_EQ(name_of(found.verdict), "known");
  EXPECT_EQ(found.kind, PROFD_RUNTIME_PHP);
  const std::string expected = php_output(
      "printf(\"php %d.%d.%d\", PHP_MAJOR_VERSION, PHP_MINOR_VERSION, PHP_RELEASE_VERSION);");
  EXPECT_EQ(text_of(found), expected);
  EXPECT_EQ(found.runtime.slot_form[0], PROFD_SLOT_GLOBAL);
  EXPECT_GE(found.runtime.layout, 16);
  EXPECT_GT(found.runtime.loop[0].bytes, 1000U);

  const UniqueFd fd(::open(program_.c_str(), O_RDONLY | O_CLOEXEC));
  const auto file = CodeFile::open(fd.get());
  ASSERT_TRUE(file);
  const auto globals = ExportedSymbols(*file).find("executor_globals");
  ASSERT_TRUE(globals);
  const auto offset = static_cast<std::uint64_t>(found.runtime.slot[0]) - globals->st_value;
  EXPECT_TRUE(offset == 488 || offset == 512) << offset;
}

TEST_F(RecognizePhpTest, OtherVersionsAreRefused) {
  const std::string version = php_output("echo PHP_MAJOR_VERSION, \".\", PHP_MINOR_VERSION;");
  ASSERT_EQ(version.size(), 3U);
  const std::string header = "X-Powered-By: PHP/";
  EXPECT_EQ(name_of(recognized_php(changed(header + version, header + "9.9")).verdict),
            "unknown_version");
  EXPECT_EQ(name_of(recognized_php(changed(header + version, header + "5.6")).verdict),
            "unknown_version");
  EXPECT_EQ(name_of(recognized_php(changed(header, "X-Powered-By: php/")).verdict),
            "unknown_version");
}

// Names are replaced in the strings of the symbols: the hash leads to them, and they are others.
TEST_F(RecognizePhpTest, WithoutItsSymbolsItIsNoneOrRefused) {
  EXPECT_EQ(name_of(recognized_php(changed("executor_globals", "executor_globalz")).verdict),
            "no_symbols");
  using namespace std::string_view_literals;
  // Its text may be the end of a longer one.
  EXPECT_EQ(name_of(recognized_php(changed("execute_ex\0"sv, "execute_eX\0"sv)).verdict), "none");
}

TEST(RecognizePhpFilesTest, OtherProgramsAreNone) {
  const UniqueFd self(::open("/proc/self/exe", O_RDONLY | O_CLOEXEC));
  EXPECT_EQ(name_of(recognized_php(self.get()).verdict), "none");
  EXPECT_EQ(name_of(recognized_php(MadePython(11).bytes()).verdict), "none");
}

TEST(PhpLayoutsTest, AreThoseOf73To85) {
  struct Row {
    unsigned major;
    unsigned minor;
    std::uint8_t number;
    std::uint16_t globals;
    std::uint16_t file;
    std::uint16_t first_line;
  };
  constexpr Row kRows[] = {{7, 3, 16, 488, 128, 136}, {7, 4, 17, 488, 136, 144},
                           {8, 0, 18, 488, 144, 152}, {8, 1, 19, 488, 144, 152},
                           {8, 2, 20, 488, 152, 160}, {8, 3, 21, 488, 144, 152},
                           {8, 4, 22, 488, 168, 176}, {8, 5, 23, 512, 168, 176}};
  for (const Row& row : kRows) {
    const php::Version* const version = php::find_version(row.major, row.minor);
    ASSERT_NE(version, nullptr);
    EXPECT_EQ(version->layout_number, row.number);
    EXPECT_EQ(version->current_execute_data, row.globals);
    EXPECT_EQ(version->layout.function_file, row.file);
    EXPECT_EQ(version->layout.function_first_line, row.first_line);
  }
  EXPECT_EQ(php::versions().size(), std::size(kRows));
  EXPECT_EQ(php::find_version(7, 2), nullptr);
  EXPECT_EQ(php::find_version(8, 6), nullptr);
}

}  // namespace
}  // namespace profd::test
