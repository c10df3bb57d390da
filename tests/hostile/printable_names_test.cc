// Names that hold the commands of a terminal: of functions, of source files and of programs. What
// profd writes shows them, and nobody's terminal obeys them.

#include <fstream>
#include <string>

#include "formats/base/utf8_text.h"
#include "tests/e2e/recording.h"

namespace profd::e2e {
namespace {

using ::testing::HasSubstr;
using ::testing::SizeIs;

namespace fs = std::filesystem;

// Clears a terminal and rings its bell; and a byte that UTF-8 does not have.
constexpr const char* kFunction = "ev\033[2Jx\007il\xff_work";
constexpr const char* kShownFunction = "ev?[2Jx?il\uFFFD_work";
constexpr const char* kSource = "sour\033[31mce.c";
constexpr const char* kShownSource = "sour?[31mce.c";
constexpr const char* kProgram = "pro\033[7mgram";
constexpr const char* kShownProgram = "pro?[7mgram";

class PrintableNamesTest : public RecordingTest {
 protected:
  PrintableNamesTest() {
    std::ofstream(path(kSource)) << "volatile long total;\n"
                                    "__attribute__((noinline)) void work(long n) {\n"
                                    "  while (n--) total += n;\n"
                                    "}\n"
                                    "int main() {\n"
                                    "  for (int i = 0; i < 400; ++i) work(1000000);\n"
                                    "}\n";
    const fs::path plain = path("plain");
    must_succeed({"gcc", "-g", "-O1", "-o", plain, path(kSource)});
    must_succeed({"objcopy", "--redefine-sym", std::string("work=") + kFunction, plain, program()});
  }

  static void must_succeed(const Args& command) {
    const Ended ended = run(command);
    ASSERT_EQ(ended.status, 0) << ended.err;
  }
  [[nodiscard]] fs::path path(const std::string& name) const { return directory_.path() / name; }
  [[nodiscard]] std::string program() const { return path(kProgram); }

  // Lines of text that a terminal takes for nothing else.
  static void expect_printable(const std::string& text) {
    std::string rest = text;
    std::erase(rest, '\n');
    EXPECT_TRUE(is_printable(rest)) << without_controls(text);
  }
};

TEST_F(PrintableNamesTest, InTheProfileOfAProcessAndItsObjects) {
  const SessionSummary summary = record({"-F", "499"}, {program()});
  expect_printable(recorded_.out + recorded_.err);
  expect_printable(slurp(output_ / "session.json"));
  ASSERT_THAT(summary.profiles, SizeIs(1));
  const fs::path profile = file(summary.profiles[0]);
  const std::string raw = run({GO_PPROF_BINARY, "-raw", profile}).out;
  EXPECT_THAT(raw, HasSubstr(kShownFunction));
  expect_printable(raw);
  const std::string lines = run({GO_PPROF_BINARY, "-lines", "-top", profile}).out;
  EXPECT_THAT(lines, HasSubstr(kShownSource));
  expect_printable(lines);
}

TEST_F(PrintableNamesTest, InOneFileOfEachForm) {
  for (const std::string form : {"x.pb.gz", "x.folded", "x.speedscope.json"}) {
    SCOPED_TRACE(form);
    const Ended ended = daemon_.profctl({"record", "-F", "499", "-o", path(form), "--", program()});
    EXPECT_EQ(ended.status, 0) << ended.err;
    expect_printable(ended.out + ended.err);
    const std::string text = form == "x.pb.gz"
                                 ? run({GO_PPROF_BINARY, "-symbolize=none", "-raw", path(form)}).out
                                 : slurp(path(form));
    EXPECT_THAT(text, HasSubstr(kShownFunction));
    EXPECT_THAT(text, HasSubstr(kShownProgram));
    expect_printable(text);
  }
}

}  // namespace
}  // namespace profd::e2e
