// Names of code in modules of the kernel and in BPF programs, as /proc/kallsyms and bpftool have
// them.

#include <cstdint>
#include <filesystem>
#include <fstream>
#include <map>
#include <set>
#include <sstream>
#include <string>
#include <utility>

#include "tests/e2e/named_programs.h"

namespace profd::e2e {
namespace {

using ::testing::IsEmpty;
using ::testing::Not;

// Function and module, "" for the kernel itself, by the address where it starts.
using KernelFunctions = std::map<std::uint64_t, std::set<std::pair<std::string, std::string>>>;

KernelFunctions kernel_functions() {
  KernelFunctions functions;
  std::ifstream file("/proc/kallsyms");
  for (std::string line; std::getline(file, line);) {
    std::istringstream fields(line);
    std::uint64_t address = 0;
    std::string type;
    std::string name;
    std::string module;
    fields >> std::hex >> address >> type >> name >> module;
    if (type == "t" || type == "T" || type == "w" || type == "W") {
      functions[address].emplace(name, module);
    }
  }
  return functions;
}

class NamesKernelTest : public NamedProgramsTest {
 protected:
  // The addresses in this module, each of which must have a name of it.
  static std::set<std::string> names_in_module(const RecordedLocations& locations,
                                               const std::string& module) {
    const KernelFunctions functions = kernel_functions();
    std::set<std::string> names;
    for (const RecordedLocation& one : locations_of(locations, "[kernel.kallsyms]")) {
      auto function = functions.upper_bound(one.address);
      if (function == functions.begin()) continue;
      --function;
      if (function->second.begin()->second != module) continue;
      const std::string shown_module = one.frames.front().file;
      EXPECT_EQ(function->second.count({one.names.front(), shown_module}), 1U)
          << std::hex << one.address << " " << one.names.front() << " " << shown_module;
      names.insert(one.names.front());
    }
    return names;
  }
};

// The module is that of the file system that the test's files are in.
TEST_F(NamesKernelTest, OfAModuleHaveTheModule) {
  std::string type = shell("findmnt -no FSTYPE -T .");
  type = type.substr(0, type.find('\n'));
  std::ifstream modules("/proc/modules");
  std::set<std::string> loaded;
  for (std::string line; std::getline(modules, line);)
    loaded.insert(line.substr(0, line.find(' ')));
  if (!loaded.contains(type)) {
    GTEST_SKIP() << "NOT TESTED: names in kernel modules. The file system " << type
                 << " is no module of this kernel, which has " << loaded.size() << " modules";
  }
  const RecordedLocations locations =
      record({"sh", "-ec",
              "cd " + path("").string() +
                  "; for i in $(seq 2000); do echo $i >file$i; done; sync; rm file*"});
  EXPECT_THAT(names_in_module(locations, "[" + type + "]"), Not(IsEmpty()));
}

TEST_F(NamesKernelTest, OfABpfProgramAreThatOfBpftool) {
  shell("clang -target bpf -O2 -c " + source("busy_filter.bpf.c").string() + " -o filter.o;" +
        "head -c 64 /dev/zero >packet; mkdir bpf");
  // In a chroot "/" is no mount, which could be made private. The program is there until the mount
  // is gone, so that it still has its name when the profile is written.
  Process holder({"unshare", "--mount", "--propagation", "unchanged", "sh", "-ec",
                  "cd " + path("").string() +
                      "; mount --make-rprivate / 2>/dev/null || true; mount -t bpf none bpf;"
                      "bpftool prog load filter.o bpf/filter;"
                      "bpftool prog show pinned bpf/filter >shown.part; mv shown.part shown;"
                      "exec sleep 300"});
  ASSERT_TRUE(eventually([&] { return std::filesystem::exists(path("shown")); })) << holder.err();
  // "12: socket_filter  name busy_filter  tag 58e97c3c7f7de641  gpl".
  std::istringstream shown(slurp(path("shown")));
  std::string id;
  std::string tag;
  std::getline(shown, id, ':');
  for (std::string word; shown >> word && word != "tag";) continue;
  shown >> tag;
  const RecordedLocations locations =
      record({"bpftool", "prog", "run", "id", id, "data_in", path("packet"), "repeat", "300000"});
  const std::string name = "bpf_prog_" + tag + "_busy_filter";
  EXPECT_GT(samples_in(locations, name), 40);
  EXPECT_THAT(names_in_module(locations, "[bpf]"), ::testing::Contains(name));
}

}  // namespace
}  // namespace profd::e2e
