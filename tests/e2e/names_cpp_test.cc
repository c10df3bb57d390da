// Names of programs of C and C++ as their tool chains' own tools have them: each address that was
// sampled is compared.

#include <sys/auxv.h>

#include <algorithm>
#include <cstdint>
#include <fstream>
#include <string>

#include "tests/e2e/named_programs.h"

namespace profd::e2e {
namespace {

using ::testing::Contains;
using ::testing::Gt;
using ::testing::HasSubstr;
using ::testing::Not;
using ::testing::Pair;

// Of at least 100 at 499 Hz, whatever the load: the programs measure their own CPU time.
constexpr std::int64_t kSamples = 40;

struct Build {
  const char* name;
  const char* command;  // $source and $program are set
};

// NOLINTNEXTLINE(readability-identifier-naming): as GoogleTest calls it
void PrintTo(const Build& build, std::ostream* out) { *out << build.name; }

class NamesOfBuildsTest : public NamedProgramsTest, public ::testing::WithParamInterface<Build> {
 protected:
  void build(const std::string& program, const std::string& command) const {
    shell("source=" + source("busy_names.cc").string() + " program=" + program + "; " + command);
  }
};

TEST_P(NamesOfBuildsTest, AreThoseOfLlvmSymbolizerWithInlinedFunctionsAndLines) {
  build("app", GetParam().command);
  shell("cp app oracle");
  const RecordedLocations locations = record({path("app")});
  EXPECT_GT(samples_in(locations, "busy::stir<unsigned int>"), kSamples);
  EXPECT_GT(samples_in(locations, "busy::Table<unsigned int>::fill"), kSamples);
  EXPECT_GT(samples_in(locations, "busy::(anonymous namespace)::churn"), kSamples);
  expect_frames_of_llvm(locations, "/app", path("oracle"));
  expect_names_of_nm(locations, "/app", "oracle");
}

INSTANTIATE_TEST_SUITE_P(
    Cpp, NamesOfBuildsTest,
    ::testing::Values(Build{"gcc", "g++ -O2 -g $source -o $program"},
                      Build{"static_pie", "g++ -O2 -g -static-pie $source -o $program"},
                      Build{"dwarf_4_at_fixed_addresses",
                            "g++ -O2 -gdwarf-4 -no-pie $source -o $program"},
                      Build{"lto", "g++ -O2 -g -flto $source -o $program"},
                      Build{"clang", "clang++ -std=c++20 -O2 -g $source -o $program"}),
    [](const auto& build) { return std::string(build.param.name); });

class NamesCppTest : public NamedProgramsTest {
 protected:
  void build_names() const { shell("g++ -O2 -g " + source("busy_names.cc").string() + " -o app"); }
  // The library has no symbols but those that it exports.
  void build_calls(const std::string& flags) const {
    shell("cc -O2 -shared -fPIC " + source("busy_library.c").string() + " -o libbusy.so;" +
          "cp libbusy.so libbusy.full; strip libbusy.so;" + "cc -O2 " + flags + " " +
          source("busy_calls.c").string() + " -L. -lbusy -Wl,-rpath," + path("").string() +
          " -o calls");
  }
};

// A .dwo file is never opened, whether it is there or not.
TEST_F(NamesCppTest, OfSplitDwarfAreThoseOfTheSymbolTableAndTheLossIsNamed) {
  const std::string compile = "g++ -O2 -gsplit-dwarf " + source("busy_names.cc").string();
  // Each with a build id of its own, since the daemon asks only once for an address of a build.
  for (const std::string build :
       {" -gdwarf-5", " -gdwarf-4", " -gdwarf-5 -Wl,--build-id=0x0123456789 && rm app-*.dwo"}) {
    shell(std::string(compile).append(" -o app").append(build));
    const auto lost = [this] { return daemon().status().names.lines.addresses_lost["split"]; };
    const std::uint64_t before = lost();
    const RecordedLocations locations = record({path("app")});
    EXPECT_GT(lost(), before + 10) << build;
    EXPECT_GT(samples_in(locations, "busy::Table<unsigned int>::fill"), kSamples) << build;
    EXPECT_EQ(samples_in(locations, "busy::stir<unsigned int>"), 0) << build;  // inlined
    expect_names_of_nm(locations, "/app", "app");
    // The line tables are in the program.
    EXPECT_TRUE(std::ranges::any_of(locations, [](const RecordedLocation& one) {
      return one.frames.front().file.ends_with("busy_names.cc") && one.frames.front().line > 0;
    })) << build;
  }
}

TEST_F(NamesCppTest, OfAStrippedProgramComeFromItsDebugFile) {
  build_names();
  shell("cp app oracle");
  move_debug_file("app");
  const RecordedLocations locations = record({path("app")});
  EXPECT_GT(samples_in(locations, "busy::stir<unsigned int>"), kSamples);
  expect_frames_of_llvm(locations, "/app", path("oracle"));
}

TEST_F(NamesCppTest, OfADebugFileThatSharesAFileOfDwzComeFromBoth) {
  build_names();
  shell("g++ -O2 -g -DOTHER " + source("busy_names.cc").string() +
        " -o other; cp app oracle; mkdir -p debug/.dwz;"
        "dwz -m debug/.dwz/common.debug -M /usr/lib/debug/.dwz/common.debug app other");
  move_debug_file("app");
  const RecordedLocations locations = record({path("app")});
  EXPECT_GT(samples_in(locations, "busy::stir<unsigned int>"), kSamples);
  expect_frames_of_llvm(locations, "/app", path("oracle"));
}

TEST_F(NamesCppTest, OfAProgramThatWasDeletedAreFound) {
  build_names();
  shell("cp app gone");
  const RecordedLocations locations = record({path("gone"), path("gone")});
  ASSERT_FALSE(std::filesystem::exists(path("gone")));
  EXPECT_GT(samples_in(locations, "busy::Table<unsigned int>::fill"), kSamples);
  ASSERT_THAT(names_in(locations), Not(Contains(HasSubstr("[gone"))));
  RecordedLocations of_program;
  for (RecordedLocation& one : locations_of(locations, "/gone")) of_program.push_back(one);
  for (RecordedLocation& one : locations_of(locations, "/gone (deleted)")) {
    of_program.push_back(std::move(one));
    of_program.back().mapping = "/gone";
  }
  expect_frames_of_llvm(of_program, "/gone", path("app"));
}

TEST_F(NamesCppTest, OfAProgramInAMountNamespaceAndAnotherRootAreFound) {
  shell("g++ -O2 -g -static " + source("busy_names.cc").string() + " -o app; mkdir -p root");
  // In a chroot "/" is no mount, which could be made private.
  const RecordedLocations locations =
      record({"unshare", "--mount", "--propagation", "unchanged", "sh", "-ec",
              "mount --make-rprivate / 2>/dev/null || true; cd " + path("").string() +
                  "; mount -t tmpfs none root; cp app root/inner; exec chroot root /inner"});
  ASSERT_FALSE(std::filesystem::exists(path("root") / "inner"));
  EXPECT_GT(samples_in(locations, "busy::Table<unsigned int>::fill"), kSamples);
  expect_frames_of_llvm(locations, "/inner", path("app"));
}

TEST_F(NamesCppTest, OfSlotsOfThePltAreThoseOfObjdump) {
  for (const std::string flags :
       {"-Wl,-z,lazy -fcf-protection=none", "-Wl,-z,now -fcf-protection", "-fuse-ld=gold"}) {
    build_calls(flags);
    const RecordedLocations locations = record({path("calls"), "slots"});
    const std::string listed = shell("objdump -d calls");
    EXPECT_GT(samples_in(locations, "tiny@plt"), 0) << flags;
    for (const RecordedLocation& one : locations_of(locations, "/calls")) {
      if (!one.names.front().ends_with("@plt")) continue;
      // "0000000000001050 <tiny@plt>:", which comes last before the instruction.
      std::ostringstream instruction;
      instruction << ' ' << std::hex << one.address << ":\t";
      const std::size_t at = listed.find(instruction.str());
      ASSERT_NE(at, listed.npos) << flags << instruction.str();
      const std::size_t start = listed.rfind(" <", listed.rfind(">:\n", at)) + 2;
      EXPECT_EQ(one.names.front(), listed.substr(start, listed.find('>', start) - start)) << flags;
    }
  }
}

TEST_F(NamesCppTest, OfAnIndirectFunctionIsTheChosenOneAndOfAColdPartTheFunctions) {
  build_calls("");
  ASSERT_THAT(shell("nm calls"), HasSubstr(" seldom.cold\n"));
  const RecordedLocations locations = record({path("calls")});
  EXPECT_GT(samples_in(locations, "chosen_work"), kSamples);
  EXPECT_EQ(samples_in(locations, "indirect_work"), 0);
  EXPECT_GT(samples_in(locations, "cold_work"), kSamples);
  std::set<std::string> symbols;
  for (const RecordedLocation& one : locations_of(locations, "/calls")) {
    if (one.names.front() == "seldom") symbols.insert(one.frames.front().function);
  }
  EXPECT_THAT(symbols, Contains("seldom.cold"));
  expect_names_of_nm(locations, "/calls", "calls");
  // A name ends where its symbol ends.
  EXPECT_EQ(samples_in(locations, "local_work"), 0);
  EXPECT_GT(samples_in(locations, "[libbusy.so]"), kSamples);
  expect_names_of_nm(locations, "/libbusy.so", "libbusy.so", "-D");
}

TEST_F(NamesCppTest, OfALibraryWithMiniDebugInfoAreThoseOfItsLocalFunctions) {
  build_calls("");
  shell(
      "objcopy --strip-debug --remove-section=.comment libbusy.full mini; xz --keep mini;"
      "objcopy --add-section .gnu_debugdata=mini.xz libbusy.so");
  const RecordedLocations locations = record({path("calls")});
  EXPECT_GT(samples_in(locations, "local_work"), kSamples);
  expect_names_of_nm(locations, "/libbusy.so", "libbusy.full");
}

TEST_F(NamesCppTest, OfTheKernelAndTheVdsoAreThoseOfKallsymsAndItsDynamicSymbols) {
  build_calls("");
  const RecordedLocations locations = record({path("calls")});
  const KernelFunctions functions = kernel_functions();
  const RecordedLocations ours = locations_of(locations, "[kernel.kallsyms]");
  ASSERT_THAT(ours.size(), Gt(10U));
  for (const RecordedLocation& one : ours) {
    auto function = functions.upper_bound(one.address);
    ASSERT_NE(function, functions.begin());
    --function;
    EXPECT_THAT(function->second, Contains(Pair(one.names.front(), one.frames.front().file)))
        << std::hex << one.address;
  }
  EXPECT_THAT(names_in(ours), Contains("vfs_read"));
  // NOLINTNEXTLINE(performance-no-int-to-ptr): as the kernel passes it
  const char* const vdso = reinterpret_cast<const char*>(::getauxval(AT_SYSINFO_EHDR));
  ASSERT_NE(vdso, nullptr);
  std::ofstream(path("vdso"), std::ios::binary).write(vdso, 8192);
  expect_names_of_nm(locations, "[vdso]", "vdso", "-D");
  EXPECT_THAT(names_in(locations_of(locations, "[vdso]")), Contains(HasSubstr("clock_gettime")));
}

}  // namespace
}  // namespace profd::e2e
