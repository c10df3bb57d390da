// Names of JIT code in profiles with names: each address that was sampled has a name that the
// runtime's own file has for it.

#include <cstring>
#include <filesystem>
#include <fstream>
#include <map>
#include <set>
#include <sstream>
#include <string>
#include <string_view>
#include <vector>

#include "tests/e2e/named_programs.h"

namespace profd::e2e {
namespace {

namespace fs = std::filesystem;
using ::testing::Contains;
using ::testing::HasSubstr;

struct Code {
  std::uint64_t start = 0;
  std::uint64_t bytes = 0;
  std::string name;
};

// "START SIZE NAME", in hex.
std::vector<Code> codes_of_perf_map(const fs::path& path) {
  std::vector<Code> codes;
  std::ifstream file(path);
  for (std::string line; std::getline(file, line);) {
    Code code;
    std::istringstream fields(line);
    fields >> std::hex >> code.start >> code.bytes >> std::ws;
    std::getline(fields, code.name);
    codes.push_back(std::move(code));
  }
  return codes;
}

template <class T>
T value_at(std::string_view bytes, std::size_t offset) {
  T value{};
  if (offset + sizeof value <= bytes.size()) {
    std::memcpy(&value, bytes.data() + offset, sizeof value);
  }
  return value;
}

// Linux, tools/perf/Documentation/jitdump-specification.txt. The places that code was moved to as
// well.
std::vector<Code> codes_of_jitdump(const fs::path& path) {
  constexpr std::uint32_t kLoad = 0;
  constexpr std::uint32_t kMove = 1;
  const std::string bytes = slurp(path);
  std::vector<Code> codes;
  std::map<std::uint64_t, std::string> names;  // by index
  std::size_t at = value_at<std::uint32_t>(bytes, 8);
  while (at != 0 && at + 16 <= bytes.size()) {
    const auto size = value_at<std::uint32_t>(bytes, at + 4);
    if (size < 16) break;
    const std::string_view record = std::string_view(bytes).substr(at, size);
    const auto kind = value_at<std::uint32_t>(record, 0);
    if (kind == kLoad) {
      std::string& name = names[value_at<std::uint64_t>(record, 48)];
      name = record.substr(56, record.find('\0', 56) - 56);
      codes.push_back(
          {value_at<std::uint64_t>(record, 32), value_at<std::uint64_t>(record, 40), name});
    } else if (kind == kMove) {
      codes.push_back({value_at<std::uint64_t>(record, 40), value_at<std::uint64_t>(record, 48),
                       names[value_at<std::uint64_t>(record, 56)]});
    }
    at += size;
  }
  return codes;
}

class NamesJitTest : public NamedProgramsTest {
 protected:
  // Runs a command in the test's directory. `process` is then its pid.
  RecordedLocations record_runtime(const std::string& command) {
    RecordedLocations locations =
        record({"sh", "-ec", "cd " + path("").string() + "; echo $$ >pid; exec " + command});
    std::ifstream(path("pid")) >> process;
    return locations;
  }

  // The file whose name ends so, anywhere in the test's directory.
  [[nodiscard]] fs::path find_file(const std::string& end) const {
    for (const auto& entry : fs::recursive_directory_iterator(path(""))) {
      if (entry.path().string().ends_with(end)) return entry.path();
    }
    ADD_FAILURE() << "no " << end;
    return {};
  }

  static void expect_names_of(const std::vector<Code>& codes, const RecordedLocations& locations,
                              const std::vector<std::string>& functions) {
    ASSERT_GT(codes.size(), 100U);
    const RecordedLocations ours = locations_of(locations, "[jit]");
    EXPECT_GT(ours.size(), 20U);
    std::int64_t samples = 0;
    for (const RecordedLocation& one : ours) {
      ASSERT_EQ(one.names.size(), 1U);
      std::set<std::string> names;  // a place can have had several
      for (const Code& code : codes) {
        if (one.address - code.start < code.bytes) names.insert(code.name);
      }
      EXPECT_THAT(names, Contains(one.names[0])) << std::hex << one.address;
      samples += one.leaf_samples;
    }
    EXPECT_GT(samples, 200);
    for (const std::string& function : functions) {
      EXPECT_THAT(names_in(ours), Contains(HasSubstr(function)));
    }
    std::printf("%zu addresses, %zu functions of the runtime\n", ours.size(), codes.size());
  }

  std::string process;
};

TEST_F(NamesJitTest, OfNodeAreThoseOfItsPerfMap) {
  const RecordedLocations locations =
      record_runtime("node --perf-basic-prof " + source("busy.js").string() + " 2");
  const fs::path map = "/tmp/perf-" + process + ".map";
  expect_names_of(codes_of_perf_map(map), locations, {":*fib", ":*mix"});
  fs::remove(map);
}

TEST_F(NamesJitTest, OfNodeAreThoseOfItsJitdump) {
  const RecordedLocations locations =
      record_runtime("node --perf-prof " + source("busy.js").string() + " 2");
  expect_names_of(codes_of_jitdump(path("jit-" + process + ".dump")), locations,
                  {":*fib", ":*mix"});
}

TEST_F(NamesJitTest, OfJavaAreThoseOfItsJitdump) {
  shell("javac -J-XX:-UsePerfData -d . " + source("Busy.java").string());
  const std::string agent = std::string("-agentpath:") + PERF_JVMTI;
  const RecordedLocations locations = record_runtime(
      "env JITDUMPDIR=. java -XX:-UsePerfData -XX:+PreserveFramePointer " + agent + " Busy 4");
  expect_names_of(codes_of_jitdump(find_file("/jit-" + process + ".dump")), locations,
                  {"LBusy;fib", "LBusy;mix"});
}

}  // namespace
}  // namespace profd::e2e
