// The gperftools files that are made of a profile with names, as both pprofs read them.

#include "daemon/profiles/named_directory.h"

#include <filesystem>
#include <initializer_list>
#include <map>
#include <set>
#include <string>
#include <vector>

#include <gmock/gmock.h>

#include "daemon/profiles/profile_files.h"
#include "daemon/storage/result_writer.h"
#include "formats/profile/gperftools_reader.h"
#include "tests/daemon/storage/unpacked_result.h"
#include "tests/formats/readers.h"

namespace profd {
namespace {

using test::Row;
using testing::ElementsAre;
using testing::HasSubstr;
using testing::IsEmpty;
using testing::Not;

constexpr std::uint64_t kNoImageLimit = std::uint64_t{1} << 40;

class NamedDirectoryTest : public testing::Test {
 protected:
  std::uint32_t labels(std::int64_t pid, const std::string& comm, const std::string& unit = "-") {
    const auto text = [this](const char* key, const std::string& value) {
      return PprofLabel{.key = profile_.add_text(key), .text = profile_.add_text(value)};
    };
    return profile_.add_labels(
        {{.key = profile_.add_text("pid"), .number = pid}, text("comm", comm), text("unit", unit)});
  }

  std::uint32_t mapping(const std::string& file, const std::string& build_id = {}) {
    return profile_.add_mapping({.start = 0x1000,
                                 .limit = 0x9000,
                                 .file_offset = 0x1000,
                                 .file = profile_.add_text(file),
                                 .build_id = profile_.add_text(build_id)});
  }

  PprofLine line(const std::string& name, const std::string& system_name = {},
                 const std::string& file = {}, std::int64_t number = 0) {
    const auto function = profile_.add_function(
        {.name = profile_.add_text(name),
         .system_name = profile_.add_text(system_name.empty() ? name : system_name),
         .file = profile_.add_text(file)});
    return {.function = function, .line = number};
  }

  std::uint32_t location(std::uint32_t in, std::uint64_t address,
                         const std::vector<PprofLine>& lines) {
    return profile_.add_location({.address = address, .mapping = in}, lines);
  }

  void add(std::uint32_t labels, const std::vector<std::uint32_t>& stack, std::int64_t samples) {
    profile_.add_sample({.labels = labels, .stack = profile_.add_stack(stack)},
                        std::vector<std::int64_t>{samples, samples * 10'101'000});
  }

  // The paths of the profiles, in the order of their processes.
  std::vector<std::string> write(std::uint64_t max_bytes = kNoImageLimit) {
    const NamedDirectory directory(profile_);
    ResultWriter result = ResultWriter::create(scratch_.path()).value();
    std::set<std::string> taken;
    std::vector<std::string> paths;
    for (const NamedDirectory::Process& process : directory.processes()) {
      ProfileSummary summary;
      summary.pid = process.pid;
      summary.comm = process.comm;
      paths.push_back(profile_path(summary, taken));
      const std::string file = directory.encode_profile(process, 10'101);
      EXPECT_TRUE(write_encoded_profile(paths.back(), file, result));
    }
    for (std::size_t i = 0; i < directory.images(); ++i) {
      EXPECT_TRUE(result.add(directory.image_path(i), directory.encode_image(i, max_bytes)));
    }
    test::unpack(result, scratch_.path() / "result");
    std::filesystem::current_path(scratch_.path() / "result");
    return paths;
  }

  void TearDown() override { std::filesystem::current_path(before_); }

  static void expect_both_readers(const std::string& path, const std::map<std::string, Row>& rows) {
    EXPECT_EQ(test::go_report(path).rows, rows);
    EXPECT_EQ(test::perl_report(path).rows, rows);
  }

  std::filesystem::path before_ = std::filesystem::current_path();
  test::ScratchDirectory scratch_;
  PprofProfile profile_{{{"samples", "count"}, {"cpu", "nanoseconds"}}};
};

TEST_F(NamedDirectoryTest, EachProcessHasAProfileWhoseFramesBothPprofsName) {
  const auto program = mapping("/usr/bin/work", "0123456789abcdef");
  const auto library = mapping("/usr/lib/libc.so.6", "fedcba");
  const auto start = location(program, 0x1010, {line("_start")});
  const auto main = location(program, 0x1090, {line("main")});
  const auto other = location(program, 0x10a0, {line("main")});
  const auto copy = location(library, 0x1010, {line("memcpy")});
  add(labels(7, "work"), {copy, main, start}, 3);
  add(labels(7, "work"), {other, start}, 2);
  add(labels(8, "other"), {copy, start}, 5);
  EXPECT_THAT(write(), ElementsAre("work.7.prof", "other.8.prof"));
  expect_both_readers("work.7.prof", {{"memcpy", {3, 3}}, {"main", {2, 5}}, {"_start", {0, 5}}});
  expect_both_readers("other.8.prof", {{"memcpy", {5, 5}}, {"_start", {0, 5}}});
  EXPECT_EQ(decode_gperftools(test::read_file("work.7.prof"))->samples(), 5U);
}

TEST_F(NamedDirectoryTest, InlinedFunctionsCountForTheFunctionThatHoldsTheirCode) {
  const auto program = mapping("/usr/bin/work");
  const auto outer = line("outer", {}, "work.c", 17);
  const auto leaf = location(program, 0x1010, {line("inlined", {}, "work.h", 3), outer});
  const auto own = location(program, 0x1011, {line("outer", {}, "work.c", 20)});
  add(labels(7, "work"), {leaf}, 3);
  add(labels(7, "work"), {own}, 1);
  (void)write();
  expect_both_readers("work.7.prof", {{"outer", {4, 4}}});
}

TEST_F(NamedDirectoryTest, AnImageHasTheLinesOfItsFunctions) {
  const auto program = mapping("/usr/bin/work");
  const auto first = location(program, 0x1010, {line("outer", {}, "/src/work.c", 17)});
  const auto second = location(program, 0x1011, {line("outer", {}, "/src/work.c", 20)});
  const auto unknown = location(program, 0x2000, {line("bare")});
  add(labels(7, "work"), {first}, 3);
  add(labels(7, "work"), {second, unknown}, 1);
  (void)write();
  const std::string lines = test::output_of(std::string("HOME=/nonexistent ") + GO_PPROF_BINARY +
                                            " -lines -top work.7.prof");
  EXPECT_THAT(lines, HasSubstr("outer /src/work.c:17"));
  EXPECT_THAT(lines, HasSubstr("outer /src/work.c:20"));
  EXPECT_THAT(lines, HasSubstr("bare [work]:1"));
}

// A recursion whose tick hits the instruction after the recursive call: the caller's call
// instruction ends one byte before the leaf.
TEST_F(NamedDirectoryTest, ACallerNextToTheLeafIsNotTakenForACopyOfIt) {
  const auto program = mapping("/usr/bin/work");
  const auto leaf = location(program, 0x1014, {line("again")});
  const auto caller = location(program, 0x1013, {line("again")});
  const auto start = location(program, 0x1100, {line("_start")});
  add(labels(7, "work"), {leaf, caller, start}, 1);
  (void)write();
  EXPECT_THAT(
      test::output_of(std::string("HOME=/nonexistent ") + GO_PPROF_BINARY + " -traces work.7.prof"),
      HasSubstr("again\n             again\n             _start\n"));
}

TEST_F(NamedDirectoryTest, NamesAreDemangledAsThoseOfTheFileItself) {
  const auto program = mapping("/usr/bin/work");
  const auto mangled = location(program, 0x1010, {line("ns::run", "_ZN2ns3runEi")});
  const std::string cut(1021, 'x');
  const auto too_long = location(program, 0x1100, {line("ns::shown", "_ZN" + cut + "...")});
  add(labels(7, "work"), {mangled, too_long}, 1);
  (void)write();
  EXPECT_THAT(test::go_report("work.7.prof").rows,
              testing::UnorderedElementsAre(testing::Pair("ns::run", Row{1, 1}),
                                            testing::Pair("ns::shown", Row{0, 1})));
}

// What an hour file holds: no addresses, so that a location is its lines.
TEST_F(NamedDirectoryTest, LocationsWithoutAddressKeepTheirNames) {
  const auto program = mapping("/usr/bin/work");
  const auto first = location(program, 0, {line("first")});
  const auto second = location(program, 0, {line("second")});
  add(labels(7, "work"), {first, second}, 2);
  (void)write();
  expect_both_readers("work.7.prof", {{"first", {2, 2}}, {"second", {0, 2}}});
}

TEST_F(NamedDirectoryTest, CodeWithoutFileOrNameIsNamedAfterItsMapping) {
  const auto in = [this](const std::string& name) {
    return profile_.add_mapping({.file = profile_.add_text(name)});
  };
  const auto kernel = location(in("[kernel]"), 0, {line("[kernel]")});
  const auto anonymous = profile_.add_location({.mapping = in("[anon]")}, {});
  const auto unknown = profile_.add_location({.mapping = in("[unknown]")}, {});
  const auto library =
      profile_.add_location({.address = 0x1234, .mapping = mapping("/a/libx.so")}, {});
  add(labels(7, "work"), {kernel, anonymous, unknown, library}, 2);
  (void)write();
  expect_both_readers(
      "work.7.prof",
      {{"[kernel]", {2, 2}}, {"[anon]", {0, 2}}, {"[unknown]", {0, 2}}, {"[libx.so]", {0, 2}}});
}

TEST_F(NamedDirectoryTest, NamesOfJitCodeAreShownCompletely) {
  const auto jit = profile_.add_mapping({.file = profile_.add_text("[jit]")});
  const auto leaf = location(jit, 0x7000, {line("JS:*hot (file.js):1<x>")});
  add(labels(7, "node"), {leaf}, 2);
  (void)write();
  expect_both_readers("node.7.prof", {{"JS:*hot {file.js}:1{x}", {2, 2}}});
}

// Readers cut what stands in angle brackets. Mutations: braces for JIT code or for names alone.
TEST_F(NamedDirectoryTest, NamesOfInterpretedCodeAreShownCompletely) {
  const auto python = profile_.add_mapping({.file = profile_.add_text("[python]")});
  const auto leaf =
      location(python, 0x7000, {line("f.<locals>.<lambda>", {}, "<frozen runpy>", 12)});
  const auto caller = location(python, 0x7100, {line("<module>", {}, "/app/x.py", 3)});
  const auto unnamed = location(python, 0x7200, {line("[unnamed]")});
  add(labels(7, "app"), {leaf, caller, unnamed}, 2);
  (void)write();
  expect_both_readers(
      "app.7.prof", {{"f.{locals}.{lambda}", {2, 2}}, {"{module}", {0, 2}}, {"[unnamed]", {0, 2}}});
  EXPECT_THAT(test::output_of(std::string("HOME=/nonexistent ") + GO_PPROF_BINARY +
                              " -lines -top app.7.prof"),
              HasSubstr("f.{locals}.{lambda} {frozen runpy}:12"));
}

TEST_F(NamedDirectoryTest, ProcessesWithOnePidAndNameAreOneProfile) {
  const auto program = mapping("/usr/bin/work");
  const auto main = location(program, 0x1010, {line("main")});
  add(labels(7, "work", "a.service"), {main}, 1);
  add(labels(7, "work", "b.service"), {main}, 2);
  EXPECT_THAT(write(), ElementsAre("work.7.prof"));
  const auto profile = decode_gperftools(test::read_file("work.7.prof"));
  ASSERT_EQ(profile->records().size(), 1U);
  EXPECT_EQ(profile->records()[0].count, 3U);
}

TEST_F(NamedDirectoryTest, FilesWithOneNameHaveImagesOfTheirOwn) {
  const auto one = location(mapping("/a/lib.so"), 0x1010, {line("one")});
  const auto two = location(mapping("/b/lib.so"), 0x1010, {line("two")});
  add(labels(7, "work"), {one, two}, 1);
  (void)write();
  expect_both_readers("work.7.prof", {{"one", {1, 1}}, {"two", {0, 1}}});
}

TEST_F(NamedDirectoryTest, AnImageOverTheLimitNamesTheFile) {
  const auto program = mapping("/usr/bin/work");
  for (std::uint64_t i = 0; i < 1000; ++i) {
    const auto one = location(program, 0x1010 + i, {line("function" + std::to_string(i))});
    add(labels(7, "work"), {one}, 1);
  }
  (void)write(20'000);
  expect_both_readers("work.7.prof", {{"[work]", {1000, 1000}}});
}

// One hostile name must not end the list of symbols that a tool prints, or the image itself.
TEST_F(NamedDirectoryTest, NamesOfOtherUsersBreakNoReader) {
  const auto program = mapping("/tmp/a b\n$build/..");
  const auto newline = location(program, 0x1010, {line("two\nlines")});
  const auto end = location(program, 0x1100, {line("_fini")});
  const auto main = location(program, 0x1200, {line("main")});
  add(labels(7, "../x y"), {newline, end, main}, 1);
  (void)write();
  std::vector<std::string> names;
  for (const auto& entry : std::filesystem::directory_iterator("objects")) {
    names.push_back(entry.path().filename());
  }
  EXPECT_THAT(names, ElementsAre(Not(HasSubstr(" "))));
  const test::Report report = test::go_report("_._x_y.7.prof");
  EXPECT_EQ(report.rows.at("two?lines"), (Row{1, 1}));
  EXPECT_EQ(report.rows.at("main"), (Row{0, 1}));
}

TEST_F(NamedDirectoryTest, AnEmptyProfileHasNoFiles) {
  EXPECT_THAT(write(), IsEmpty());
  EXPECT_FALSE(std::filesystem::exists("objects"));
}

}  // namespace
}  // namespace profd
