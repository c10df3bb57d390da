// Profiles of interpreted code, as both pprofs and the profile with names show them.
//
// Mutations that the tests find: an interpreted word that is taken for a native frame (a row
// "[unknown]", or an address of the word's bits), a frame at the address of the next unit (another
// line), segments in another order, a loop with the name of its neighbour, and a trampoline that is
// shown twice or too seldom.

#include <filesystem>
#include <memory>
#include <string>
#include <vector>

#include <gmock/gmock.h>

#include "collectors/interpreters/codes.h"
#include "daemon/profiles/interpreted_code.h"
#include "daemon/profiles/process_labels.h"
#include "daemon/storage/result_store.h"
#include "formats/profile/pprof_reader.h"
#include "tests/daemon/profiles/session_writer_fixture.h"

namespace profd {
namespace {

using test::ChainProgram;
using test::kProgram;
using test::SessionWriterTest;
using test::SyntheticSample;
using testing::Contains;
using testing::ElementsAre;
using testing::HasSubstr;
using testing::StartsWith;

constexpr std::uint8_t kLayoutOf311 = 4;
constexpr std::uint64_t kCodeAddress = 0x7f1234500000;
constexpr std::uint32_t kFirstLine = 10;
constexpr std::uint32_t kUnits = 8;

// Units 0 to 3: line 10, 4 to 7: line 12. Entries of kind 13 (without columns): a first byte, and a
// signed varint.
constexpr std::string_view kLines("\xeb\x00\xeb\x04", 4);

RawCode code_of(std::string_view name, std::uint64_t address) {
  RawCode code{.kind = PROFD_RUNTIME_PYTHON,
               .layout = kLayoutOf311,
               .address = address,
               .first_line = kFirstLine,
               .units = kUnits};
  code.texts[PROFD_CODE_NAME] = {name, PROFD_TEXT_LATIN_1};
  code.texts[PROFD_CODE_QUALIFIER] = {name, PROFD_TEXT_LATIN_1};
  code.texts[PROFD_CODE_FILE] = {"/app/x.py", PROFD_TEXT_LATIN_1};
  code.texts[PROFD_CODE_LINES] = {kLines, PROFD_TEXT_BYTES};
  return code;
}

class InterpretedProfileTest : public SessionWriterTest {
 protected:
  InterpretedProfileTest() : process_(add_process("chain")) {
    auto table = std::make_shared<InterpretedTable>();
    const std::uint64_t distance = 0x1000;
    for (const std::string_view name : {"Worker.step", "run"}) {
      const std::uint32_t number = table->add();
      const auto file = std::make_shared<const std::string>("/app/x.py");
      const RawCode code = code_of(name, kCodeAddress + number * distance);
      table->set(number, std::make_shared<const KeptCode>(code, file), false);
    }
    unannounced_ = table->add();
    process_.interpreted = std::move(table);
  }

  // The leaf is called by Worker.step, that by run, and their loop is middle().
  SyntheticSample woven(const ChainProgram& program) const {
    return SyntheticSample(kProgram)
        .leaf(program.address("leaf"), 1)
        .interpreted(1, 5)
        .interpreted(2, 0)
        .user(program.address("middle", 5), 1)
        .user(program.address("outer", 5), 1)
        .user(program.address("_start", 5), 1);
  }

  // The frames of the only stack in the profile with names: "name file:line [object]".
  std::vector<std::string> named_stack() {
    const auto profile = decode_pprof(test::read_file(path(kNamedProfile)));
    std::vector<std::string> frames;
    if (!profile || profile->samples().size() != 1) return frames;
    for (const std::uint32_t index : profile->stack(profile->samples()[0].stack)) {
      const PprofLocation& location = profile->locations()[index];
      const PprofLine& line = profile->lines(location.lines)[0];
      const PprofFunction& function = profile->functions()[line.function];
      const PprofMapping& mapping = profile->mappings()[location.mapping];
      const std::string object(profile->text(mapping.file));
      frames.push_back(std::string(profile->text(function.name)) + " " +
                       std::string(profile->text(function.file)) + ":" + std::to_string(line.line) +
                       " " + object.substr(object.rfind('/') + 1));
    }
    return frames;
  }

  ProcessSnapshot& process_;
  std::uint32_t unannounced_ = 0;
};

TEST_F(InterpretedProfileTest, ShowsTheFramesInFrontOfTheirLoop) {
  const ChainProgram program = add_program(process_, "libchain.so");
  add_samples(process_, woven(program), 3);
  const SessionSummary summary = write();
  const InterpretedNames expected{
      .runtime = "python 3.11", .functions = 2, .samples = 3, .named_samples = 3};
  EXPECT_EQ(summary.profiles.at(0).interpreted, expected);
  EXPECT_THAT(named_stack(), ElementsAre(StartsWith("leaf "), "Worker.step /app/x.py:12 [python]",
                                         "run /app/x.py:10 [python]", StartsWith("middle "),
                                         StartsWith("outer "), StartsWith("_start ")));
}

TEST_F(InterpretedProfileTest, BothReadersShowThem) {
  const ChainProgram program = add_program(process_, "libchain.so");
  add_samples(process_, woven(program), 3);
  write();
  std::map<std::string, test::Row> rows = test::kChainRows;
  rows["Worker.step"] = {0, 3};
  rows["run"] = {0, 3};
  expect_both_readers("chain.4321.prof", rows);
  EXPECT_THAT(objects(), Contains("python-chain-4321.so"));
}

TEST_F(InterpretedProfileTest, TheImageHasTheLinesOfTheirInstructions) {
  const ChainProgram program = add_program(process_, "libchain.so");
  add_samples(process_, woven(program), 3);
  write();
  const std::filesystem::path before = std::filesystem::current_path();
  std::filesystem::current_path(path(""));
  const std::string top = test::output_of(std::string("HOME=/nonexistent ") + GO_PPROF_BINARY +
                                          " -lines -top chain.4321.prof");
  std::filesystem::current_path(before);
  EXPECT_THAT(top, HasSubstr("Worker.step /app/x.py:12"));
  EXPECT_THAT(top, HasSubstr("run /app/x.py:10"));
}

TEST_F(InterpretedProfileTest, ALeafThatIsInterpretedIsTheLeaf) {
  const ChainProgram program = add_program(process_, "libchain.so");
  add_samples(process_,
              SyntheticSample(kProgram)
                  .interpreted(1, 4)
                  .leaf(program.address("middle"), 1)
                  .user(program.address("_start", 5), 1),
              3);
  write();
  expect_both_readers("chain.4321.prof",
                      {{"Worker.step", {3, 3}}, {"middle", {0, 3}}, {"_start", {0, 3}}});
  EXPECT_THAT(named_stack(), Contains("Worker.step /app/x.py:12 [python]"));
}

TEST_F(InterpretedProfileTest, CodeWithoutAnAnnouncementIsShownWithoutAName) {
  const ChainProgram program = add_program(process_, "libchain.so");
  add_samples(process_, SyntheticSample(kProgram)
                            .leaf(program.address("leaf"), 1)
                            .interpreted(unannounced_, 3)
                            .interpreted(0, 3)
                            .user(program.address("middle", 5), 1));
  const SessionSummary summary = write();
  const InterpretedNames expected{.runtime = "", .functions = 2, .samples = 1};
  EXPECT_EQ(summary.profiles.at(0).interpreted, expected);
  EXPECT_THAT(named_stack(), ElementsAre(StartsWith("leaf "), "[unnamed] :0 [python]",
                                         "[over share] :0 [python]", StartsWith("middle ")));
  expect_both_readers(
      "chain.4321.prof",
      {{"leaf", {1, 1}}, {"[unnamed]", {0, 1}}, {"[over share]", {0, 1}}, {"middle", {0, 1}}});
}

// Mutations: a refusal although its frames are shown, or of a file that the process does not have.
TEST_F(InterpretedProfileTest, AnInterpreterThatIsNotReadIsNamedWithTheReason) {
  const ChainProgram program = add_program(process_, "libchain.so");
  InterpreterFiles files;
  files[FileKey{.inode = 1}] = {.path = "/other", .text = "python 3.9.2"};
  files[program.file()->key] = {
      .path = "/app", .text = "python 3.13.2", .verdict = RuntimeVerdict::kFreeThreaded};
  process_.refused_interpreters = std::make_shared<const InterpreterFiles>(files);
  add_samples(process_, chain(program), 3);
  const InterpretedNames expected{.runtime = "python 3.13.2", .refused = "free_threaded"};
  EXPECT_EQ(write().profiles.at(0).interpreted, expected);
}

TEST_F(InterpretedProfileTest, AProcessWithFramesIsNotRefused) {
  const ChainProgram program = add_program(process_, "libchain.so");
  InterpreterFiles files;
  files[program.file()->key].verdict = RuntimeVerdict::kUnknownVersion;
  process_.refused_interpreters = std::make_shared<const InterpreterFiles>(files);
  add_samples(process_, woven(program), 3);
  EXPECT_EQ(write().profiles.at(0).interpreted->refused, "");
}

// The program is not called python.
TEST_F(InterpretedProfileTest, ItsRuntimeIsTheOneThatWasSampled) {
  EXPECT_EQ(labels_of(process_, {}).runtime, "python");
  process_.interpreted.reset();
  EXPECT_EQ(labels_of(process_, {}).runtime, kNoLabel);
}

TEST_F(InterpretedProfileTest, FramesWithoutALoopComeLast) {
  const ChainProgram program = add_program(process_, "libchain.so");
  add_samples(process_,
              SyntheticSample(kProgram).leaf(program.address("leaf"), 1).interpreted(2, 7), 2);
  const SessionSummary summary = write();
  const InterpretedNames expected{
      .runtime = "python 3.11", .functions = 1, .samples = 2, .named_samples = 2, .unanchored = 2};
  EXPECT_EQ(summary.profiles.at(0).interpreted, expected);
  EXPECT_THAT(named_stack(), ElementsAre(StartsWith("leaf "), "run /app/x.py:12 [python]"));
}

TEST_F(InterpretedProfileTest, APartOfTheLoopWithoutASymbolHasItsName) {
  const ChainProgram program = add_program(process_, "liblooped.so", DIVIDED_LOOP_PROGRAM);
  const ProcessMapping mapping = program.mapping();
  constexpr std::uint32_t kBytesOfFunction = 32;
  const auto offset_of = [&mapping](std::uint64_t address) {
    return static_cast<std::uint32_t>(address - mapping.start + mapping.file_offset);
  };
  const std::uint64_t part = program.address("before", kBytesOfFunction);
  profd_runtime runtime{};
  runtime.kind = PROFD_RUNTIME_PYTHON;
  runtime.loop[0] = {.start = offset_of(program.address("loop")), .bytes = kBytesOfFunction};
  runtime.loop[1] = {.start = offset_of(part), .bytes = 2 * kBytesOfFunction};
  snapshot_.interpreters.emplace(program.file()->key, runtime);
  add_samples(process_,
              SyntheticSample(kProgram)
                  .leaf(program.address("behind"), 1)
                  .interpreted(1, 0)
                  .user(part + 8, 1)
                  .interpreted(2, 0)
                  .user(program.address("loop", 8), 1),
              3);
  write();
  EXPECT_THAT(named_stack(), ElementsAre(StartsWith("behind "), StartsWith("Worker.step "),
                                         StartsWith("_PyEval_EvalFrameDefault "),
                                         StartsWith("run "), StartsWith("loop ")));
  expect_both_readers("chain.4321.prof", {{"behind", {3, 3}},
                                          {"Worker.step", {0, 3}},
                                          {"_PyEval_EvalFrameDefault", {0, 3}},
                                          {"run", {0, 3}},
                                          {"loop", {0, 3}}});
}

// Mutations: in the order of the frames, each as often as a frame has it, and a frame without a
// line that is shown at another one's.
TEST_F(InterpretedProfileTest, LinesOfPhpAreThoseOfItsFrames) {
  RawCode code = code_of("run", kCodeAddress);
  code.kind = PROFD_RUNTIME_PHP;
  code.texts[PROFD_CODE_QUALIFIER] = {};
  code.texts[PROFD_CODE_LINES] = {};
  const auto file = std::make_shared<const std::string>("/app/x.php");
  auto table = std::make_shared<InterpretedTable>();
  const std::uint32_t number = table->add();
  table->set(number, std::make_shared<const KeptCode>(code, file), false);
  process_.interpreted = std::move(table);
  for (const std::uint32_t position : {14U, 12U, 14U, InterpretedFrame::kNoPosition}) {
    add_samples(process_, SyntheticSample(kProgram).interpreted(number, position).leaf(0x1234));
  }
  const InterpretedFunctions functions(naming_->parser(), process_);
  const std::size_t index = functions.index_of(number);
  EXPECT_THAT(functions.all()[index].code.lines,
              ElementsAre(InterpretedLine{.position = 2, .line = 12},
                          InterpretedLine{.position = 4, .line = 14}));
  EXPECT_EQ(functions.line_of(index, 12), 12U);
  EXPECT_EQ(functions.line_of(index, InterpretedFrame::kNoPosition), kFirstLine);
  const auto without_line = image_pc(functions.all()[index], InterpretedFrame::kNoPosition);
  EXPECT_EQ(without_line, kCodeAddress) << "the image has the first line there";
}

// As in the profile with names, and unlike a function of such a name.
TEST(InterpretedCode, AnImageHasTheNamesOfCodeWithoutOne) {
  EXPECT_EQ(interpreted_symbol(kUnnamedCode, 0x1000), "[unnamed]");
  EXPECT_EQ(interpreted_symbol(kCodeOverShare, 0x1000), "[over share]");
  EXPECT_EQ(interpreted_symbol("f.<locals>.[x]", 0x1000), "f.{locals}.{x}");
}

TEST(InterpretedCode, HasObjectsOfItsOwn) {
  for (const char* const object : {"[python]", "[php]", "[interpreted]"}) {
    EXPECT_TRUE(is_interpreted_object(object)) << object;
  }
  for (const char* const other : {"[jit]", "python", "[]", "", "[python3.11]"}) {
    EXPECT_FALSE(is_interpreted_object(other)) << other;
  }
}

// The position of PHP's frames is their line.
TEST(InterpretedCode, OfPhpHasAPlaceForEachLine) {
  InterpretedFunctions::Function function;
  function.address = 0x1000;
  function.kind = PROFD_RUNTIME_PHP;
  function.start_line = 10;
  function.bytes = 2 * kUnits;
  EXPECT_EQ(image_pc(function, 13), 0x1006U);
  EXPECT_EQ(image_pc(function, 9), 0x1000U);
  EXPECT_EQ(image_pc(function, 4000), 0x100eU);
}

TEST(InterpretedCode, ATrampolineIsWhatCallsTheLoopOfASegment) {
  const std::uint64_t native = 0x1000;
  const std::uint64_t interpreted = InterpretedFrame::to_word(1, 2);
  const std::vector<std::uint64_t> words{interpreted, native, native, native};
  EXPECT_FALSE(called_segment(words, 0));
  EXPECT_FALSE(called_segment(words, 1));
  EXPECT_TRUE(called_segment(words, 2));
  EXPECT_FALSE(called_segment(words, 3));
}

// Mutations: by the prefix alone, or by the function without its file.
TEST(InterpretedCode, ATrampolineOfAnotherFunctionRepeatsNothing) {
  InterpretedFunctions::Function function;
  function.code.name = "f.<locals>.g";
  function.code.file = "/app/x.py";
  EXPECT_FALSE(is_trampoline_of(function, "py::f.<locals>.g:/app/x.py")) << "it has no name itself";
  function.has_name = true;
  EXPECT_TRUE(is_trampoline_of(function, "py::f.<locals>.g:/app/x.py"));
  for (const char* const other :
       {"py::f:/app/x.py", "py::f.<locals>.g:/app/y.py", "py::f.<locals>.g:/app/x.pyc",
        "py::", "f.<locals>.g:/app/x.py", "JS:*f /app/x.js:1:1", ""}) {
    EXPECT_FALSE(is_trampoline_of(function, other)) << other;
  }
}

TEST(InterpretedCode, ItsImageHasAPlaceForEachUnit) {
  InterpretedFunctions::Function function;
  function.address = 0x1000;
  function.bytes = 2 * kUnits;
  function.start_line = kFirstLine;
  function.code = {.name = "<module>",
                   .file = "<frozen runpy>",
                   .lines = {{.position = 0, .line = 0},
                             {.position = 2, .line = 11},
                             {.position = kUnits, .line = 99}}};
  EXPECT_EQ(image_pc(function, 3), 0x1006U);
  EXPECT_EQ(image_pc(function, 4000), 0x100eU);  // the last unit
  EXPECT_EQ(image_pc(function, InterpretedFrame::kNoPosition), 0x1000U);
  EXPECT_EQ(image_file(function.code.file), "{frozen runpy}");
  const JitImageFunction made = image_function(function, 5);
  EXPECT_EQ(made.name, "{module}");
  EXPECT_THAT(made.lines, ElementsAre(JitImageLine{.line = kFirstLine, .file = 5},
                                      JitImageLine{.code_offset = 4, .line = 11, .file = 5}));
}

}  // namespace
}  // namespace profd
