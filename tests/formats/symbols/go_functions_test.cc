// Programs of each Go release that is there, against the runtime in the program itself (the
// innermost function), go tool addr2line (the outermost one) and llvm-symbolizer (the calls between
// these, by the program's DWARF).

#include "formats/symbols/go_functions.h"

#include <algorithm>
#include <chrono>
#include <filesystem>
#include <fstream>
#include <random>
#include <regex>
#include <sstream>
#include <vector>

#include <gtest/gtest.h>

#include "formats/symbols/find_code_names.h"
#include "tests/formats/symbols/built_code.h"

namespace profd {
namespace {

struct Release {
  const char* name;
  const char* go;
};

std::vector<std::string> lines_of_text(const std::string& text) {
  std::vector<std::string> lines;
  std::istringstream input(text);
  for (std::string line; std::getline(input, line);) lines.push_back(line);
  return lines;
}

// The runtime and DWARF write the type arguments of a generic function in other ways.
std::string without_type_arguments(const std::string& name) {
  return std::regex_replace(name, std::regex("\\[.*\\]"), "[]");
}

std::string place_of(const CodeFrame& frame) {
  return frame.file + ":" + std::to_string(frame.line);
}

std::string hexadecimal(std::uint64_t number) {
  std::ostringstream text;
  text << std::hex << "0x" << number;
  return text.str();
}

class GoFunctionsTest : public testing::TestWithParam<Release> {
 protected:
  std::string build(const std::string& name, const std::string& options) {
    built_.run(std::string("env GO111MODULE=off GOTOOLCHAIN=local GOFLAGS= GOCACHE=" GO_CACHE "/") +
               GetParam().name + " " + GetParam().go + " build " + options + " -o " + name + " " +
               GO_NAMES_SOURCE);
    return built_.path(name);
  }

  // What the runtime says of its addresses, as addresses of the file.
  struct Answer {
    std::uint64_t address = 0;
    std::string function;
    std::string place;
  };
  static std::vector<Answer> answers_of(const std::string& program, int count) {
    const std::string start = test::output_of("readelf -lW " + program + " | grep -m1 LOAD");
    const std::uint64_t linked =
        std::stoull(start.substr(start.find("0x", start.find("0x") + 2)), nullptr, 16);
    const auto lines = lines_of_text(test::output_of(program + " " + std::to_string(count)));
    const std::uint64_t slide = std::stoull(lines.at(0), nullptr, 16) - linked;
    std::vector<Answer> answers;
    for (std::size_t i = 1; i < lines.size(); ++i) {
      std::istringstream fields(lines[i]);
      Answer answer;
      fields >> std::hex >> answer.address >> answer.function >> answer.place;
      answer.address -= slide;
      answers.push_back(answer);
    }
    return answers;
  }

  static void expect_answers_of_the_runtime(const std::string& program) {
    const auto answers = answers_of(program, 4000);
    std::vector<std::uint64_t> addresses;
    for (const Answer& answer : answers) addresses.push_back(answer.address);
    const auto names = test::names_of(program, addresses);
    std::size_t inlined = 0;
    std::size_t in_padding = 0;
    for (std::size_t i = 0; i < names.size(); ++i) {
      // The runtime gives padding behind a function to the function, without a line.
      if (answers[i].place == "?:0") {
        // Functions in assembly or C may have no lines at all.
        EXPECT_TRUE(names[i].frames.empty() || names[i].frames[0].file.empty())
            << hexadecimal(addresses[i]);
        ++in_padding;
        continue;
      }
      ASSERT_EQ(names[i].source, NameSource::kGo) << hexadecimal(addresses[i]);
      const CodeFrame& inner = names[i].frames.front();
      EXPECT_EQ(without_type_arguments(inner.name), without_type_arguments(answers[i].function))
          << hexadecimal(addresses[i]);
      EXPECT_EQ(place_of(inner), answers[i].place) << hexadecimal(addresses[i]);
      inlined += names[i].frames.size() > 1 ? 1 : 0;
    }
    EXPECT_GT(inlined, 100U);
    EXPECT_LT(in_padding, answers.size() / 5);
  }

  test::BuiltCode built_;
};

TEST_P(GoFunctionsTest, InnermostFunctionsAreThoseOfTheRuntime) {
  struct Variant {
    const char* name;
    const char* options;
  };
  for (const Variant& variant :
       {Variant{"plain", ""},
        {"stripped", "-ldflags='-s -w'"},
        {"pie", "-buildmode=pie"},
        {"external", "-buildmode=pie -ldflags='-linkmode=external -s -w'"}}) {
    SCOPED_TRACE(variant.name);
    expect_answers_of_the_runtime(build(variant.name, variant.options));
  }
}

TEST_P(GoFunctionsTest, ATableIsFoundWithoutSectionHeaders) {
  const std::string program = build("bare", "-ldflags='-s -w'");
  const auto answers = answers_of(program, 500);
  std::string bytes = test::read_file(program);
  std::fill_n(bytes.begin() + 40, 8, '\0');  // e_shoff
  std::fill_n(bytes.begin() + 58, 6, '\0');  // e_shentsize, e_shnum, e_shstrndx
  std::ofstream(program, std::ios::binary) << bytes;
  for (const Answer& answer : answers) {
    if (answer.place == "?:0") continue;
    const auto names = test::name_of(program, answer.address);
    ASSERT_EQ(names.source, NameSource::kGo) << hexadecimal(answer.address);
    EXPECT_EQ(place_of(names.frames.front()), answer.place);
  }
}

TEST_P(GoFunctionsTest, OutermostFunctionsAreThoseOfAddr2line) {
  const std::string program = build("plain", "");
  const test::ScratchDirectory scratch;
  std::string input;
  std::vector<std::uint64_t> addresses;
  for (const Answer& answer : answers_of(program, 2000)) {
    if (answer.place == "?:0") continue;
    addresses.push_back(answer.address);
    input += hexadecimal(answer.address) + "\n";
  }
  const auto lines = lines_of_text(
      test::output_of(std::string("GOTOOLCHAIN=local ") + GetParam().go + " tool addr2line " +
                      program + " <" + scratch.write("addresses", input).string()));
  ASSERT_EQ(lines.size(), 2 * addresses.size());
  const auto names = test::names_of(program, addresses);
  for (std::size_t i = 0; i < addresses.size(); ++i) {
    ASSERT_FALSE(names[i].frames.empty());
    EXPECT_EQ(names[i].frames.back().name, lines[2 * i]);
    EXPECT_EQ(place_of(names[i].frames.front()), lines[2 * i + 1]);
  }
}

// The inlined calls at addresses by DWARF: "name at line" of each frame, the innermost first.
std::vector<std::string> chains_of_llvm(const std::string& program, const std::string& addresses) {
  std::vector<std::string> chains;
  std::string chain;
  std::string name;
  for (const std::string& line : lines_of_text(
           test::output_of("llvm-symbolizer-14 --inlines --functions=linkage --obj=" + program +
                           " <" + addresses))) {
    if (line.empty()) {
      chains.push_back(chain);
      chain.clear();
    } else if (name.empty()) {
      name = line;
    } else {
      const auto column = line.rfind(':');
      const auto number = line.rfind(':', column - 1);
      chain += without_type_arguments(name) + " at " +
               line.substr(number + 1, column - number - 1) + "; ";
      name.clear();
    }
  }
  return chains;
}

TEST_P(GoFunctionsTest, InlinedCallsAreThoseOfDwarf) {
  const std::string program = build("plain", "");
  const test::ScratchDirectory scratch;
  std::string input;
  std::vector<std::uint64_t> addresses;
  for (const Answer& answer : answers_of(program, 4000)) {
    if (answer.place == "?:0") continue;
    addresses.push_back(answer.address);
    input += hexadecimal(answer.address) + "\n";
  }
  const auto chains = chains_of_llvm(program, scratch.write("addresses", input));
  ASSERT_EQ(chains.size(), addresses.size());
  const auto names = test::names_of(program, addresses);
  std::size_t deep = 0;
  std::size_t different = 0;
  std::string first_differences;
  for (std::size_t i = 0; i < addresses.size(); ++i) {
    std::string chain;
    for (const CodeFrame& frame : names[i].frames) {
      chain += without_type_arguments(frame.name) + " at " + std::to_string(frame.line) + "; ";
    }
    deep += names[i].frames.size() > 2 ? 1 : 0;
    if (chain == chains[i]) continue;
    if (++different < 10) {
      first_differences += hexadecimal(addresses[i]) + " " + chain + "\n  " + chains[i] + "\n";
    }
  }
  EXPECT_GT(deep, 20U);
  EXPECT_LE(different, addresses.size() / 100) << first_differences;
}

TEST_P(GoFunctionsTest, FunctionsStartAtTheirLines) {
  const std::string program = build("plain", "");
  const auto source = lines_of_text(test::read_file(GO_NAMES_SOURCE));
  std::size_t checked = 0;
  for (const auto& symbol : test::list_code(program)) {
    if (symbol.name != "main.work" && symbol.name != "main.main") continue;
    const auto names = test::name_of(program, symbol.start);
    const std::uint32_t line = names.frames.back().start_line;
    ++checked;
    if (std::string(GetParam().name) == "1.19") {
      EXPECT_EQ(line, 0U) << "Go 1.20 introduced it";
    } else {
      EXPECT_TRUE(source.at(line - 1).starts_with("func " + symbol.name.substr(5))) << line;
    }
  }
  EXPECT_EQ(checked, 2U);
}

TEST_P(GoFunctionsTest, AThousandAddressesEndInTime) {
  const std::string program = build("stripped", "-ldflags='-s -w'");
  std::vector<std::uint64_t> addresses;
  for (const Answer& answer : answers_of(program, 1000)) addresses.push_back(answer.address);
  const auto started = std::chrono::steady_clock::now();
  (void)test::names_of(program, addresses);
  EXPECT_LT(std::chrono::steady_clock::now() - started, std::chrono::seconds(10));
}

// Bytes of the table and of the inline trees are overwritten.
TEST_P(GoFunctionsTest, AHostileTableCostsABoundedTime) {
  const std::string program = build("hostile", "-ldflags='-s -w'");
  std::vector<std::uint64_t> addresses;
  for (const Answer& answer : answers_of(program, 200)) addresses.push_back(answer.address);
  const std::string section =
      test::output_of("readelf -SW " + program + " | grep -m1 ' .gopclntab '");
  std::istringstream fields(section.substr(section.find("PROGBITS") + 8));
  std::uint64_t address = 0;
  std::uint64_t offset = 0;
  std::uint64_t size = 0;
  fields >> std::hex >> address >> offset >> size;
  const std::string good = test::read_file(program);
  std::mt19937_64 random(3);  // NOLINT: the same every time
  for (int round = 0; round < 30; ++round) {
    std::string bytes = good;
    for (int change = 0; change < 20'000; ++change) {
      // Small numbers, too: they are valid offsets and indexes of something else.
      const auto value = static_cast<char>(random() % 3 == 0 ? random() : random() % 4);
      bytes[offset + random() % size] = value;
    }
    // The header stays, except in some rounds.
    if (round % 5 != 0) bytes.replace(offset, 72, good, offset, 72);
    std::ofstream(program, std::ios::binary) << bytes;
    const auto started = std::chrono::steady_clock::now();
    (void)test::names_of(program, addresses);
    EXPECT_LT(std::chrono::steady_clock::now() - started, std::chrono::seconds(1));
  }
}

// Debian's, and the newest one where somebody has installed it.
std::vector<Release> installed_releases() {
  std::vector<Release> releases{{"1.19", "/usr/lib/go-1.19/bin/go"}};
  const Release newest{"newest", "/usr/local/go/bin/go"};
  if (std::filesystem::exists(newest.go)) releases.push_back(newest);
  return releases;
}

INSTANTIATE_TEST_SUITE_P(Releases, GoFunctionsTest, testing::ValuesIn(installed_releases()),
                         [](const auto& release) {
                           std::string name = release.param.name;
                           std::ranges::replace(name, '.', '_');
                           return name;
                         });

}  // namespace
}  // namespace profd
