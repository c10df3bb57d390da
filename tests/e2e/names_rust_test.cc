// Names of Rust programs, with both forms of mangled names.

#include <algorithm>
#include <fstream>
#include <regex>
#include <set>
#include <sstream>
#include <string>

#include "tests/e2e/named_programs.h"

namespace profd::e2e {
namespace {

constexpr std::int64_t kRustSamples = 40;

class NamesRustTest : public NamedProgramsTest {
 protected:
  RecordedLocations record_program(const std::string& flags) {
    shell("/usr/bin/rustc -O -g " + flags + " " + source("busy_names.rs").string() + " -o app");
    return record({path("app")});
  }

  // As other tools have the names, without what differs between instances of one function: the hash
  // at the end of an older name, and the suffix of a function that LLVM made.
  [[nodiscard]] std::string demangled(const std::string& system_name) const {
    const bool is_newer_form = system_name.starts_with("_R");
    std::ofstream(path("name")) << system_name << '\n';
    std::string name = shell(is_newer_form ? "llvm-cxxfilt-19 <name" : "c++filt <name");
    static const std::regex instance(R"((::h[0-9a-f]{16})?( ?\(?\.llvm\.[0-9]+\)?)?\n)");
    return std::regex_replace(name, instance, "");
  }

  void expect_demangled(const RecordedLocations& locations, const std::string& prefix) const {
    std::set<std::string> compared;
    for (const RecordedLocation& one : locations_of(locations, "/app")) {
      for (std::size_t i = 0; i < one.frames.size(); ++i) {
        const std::string& system_name = one.frames[i].function;
        if (!system_name.starts_with(prefix) || !compared.insert(system_name).second) continue;
        EXPECT_EQ(one.names[i], demangled(system_name)) << system_name;
      }
    }
    EXPECT_GT(compared.size(), 15U);
  }
};

TEST_F(NamesRustTest, OfTheOlderFormAreThoseOfItsDwarfAndOfOtherDemanglers) {
  const RecordedLocations locations = record_program("");
  EXPECT_GT(samples_in(locations, "busy_names::mix"), kRustSamples);
  EXPECT_GT(samples_in(locations, "<busy_names::Round<T> as busy_names::Shape>::stir"),
            kRustSamples);
  expect_frames_of_llvm(locations, "/app", path("app"));
  expect_names_of_nm(locations, "/app", "app");
  expect_demangled(locations, "_ZN");
}

TEST_F(NamesRustTest, OfTheNewerFormAreThoseOfItsDwarfAndOfOtherDemanglers) {
  const RecordedLocations locations = record_program("-C symbol-mangling-version=v0");
  EXPECT_GT(samples_in(locations, "busy_names::mix"), kRustSamples);
  EXPECT_GT(samples_in(locations, "<busy_names::Round<u32> as busy_names::Shape>::stir"),
            kRustSamples);
  expect_frames_of_llvm(locations, "/app", path("app"));
  expect_names_of_nm(locations, "/app", "app");
  expect_demangled(locations, "_R");
}

}  // namespace
}  // namespace profd::e2e
