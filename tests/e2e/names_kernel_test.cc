// Names of code in modules of the kernel and in BPF programs, as /proc/kallsyms and bpftool have
// them.

#include <cstdint>
#include <filesystem>
#include <fstream>
#include <list>
#include <set>
#include <sstream>
#include <string>

#include "tests/e2e/named_programs.h"

namespace profd::e2e {
namespace {

using ::testing::IsEmpty;
using ::testing::Not;

class NamesKernelTest : public NamedProgramsTest {
 protected:
  // The addresses in this module, each of which must have a name of it.
  static std::set<std::string> names_in_module(const RecordedLocations& locations,
                                               const std::string& module) {
    const KernelFunctions functions = kernel_functions();
    std::set<std::string> names;
    for (const RecordedLocation& one : locations_of(locations, "[kernel.kallsyms]")) {
      // A retpoline that is about to call a program leaves the program's address on the stack.
      auto function = functions.upper_bound(one.address);
      const bool is_byte_before = function != functions.end() &&
                                  function->first == one.address + 1 &&
                                  function->second.begin()->second == "[bpf]";
      if (!is_byte_before) {
        if (function == functions.begin()) continue;
        --function;
      }
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
  // In a chroot below a mount, findmnt finds none.
  std::string type = shell("findmnt -no FSTYPE -T . || stat -f -c %T .");
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

// A BPF program that stays loaded as long as the object.
class LoadedFilter {
 public:
  // `directory` gets an object file and a mount. The program has this name.
  LoadedFilter(const std::filesystem::path& directory, const std::string& source,
               const std::string& name)
      : shown_(directory / (name + ".shown")),
        // In a chroot "/" is no mount, which could be made private.
        holder_({"unshare", "--mount", "--propagation", "unchanged", "sh", "-ec",
                 "cd " + directory.string() + "; sed s/busy_filter/" + name + "/ " + source + " >" +
                     name + ".c; clang -target bpf -O2 -c " + name + ".c -o " + name +
                     ".o; mkdir -p bpf; mount --make-rprivate / 2>/dev/null || true;"
                     "mount -t bpf none bpf; bpftool prog load " +
                     name + ".o bpf/filter; bpftool prog show pinned bpf/filter >" + name +
                     ".part; mv " + name + ".part " + shown_.string() + "; exec sleep 300"}) {
    if (!eventually([&] { return std::filesystem::exists(shown_); })) return;
    // "12: socket_filter  name busy_filter  tag 58e97c3c7f7de641  gpl".
    std::istringstream shown(slurp(shown_));
    std::getline(shown, id_, ':');
    for (std::string word; shown >> word && word != "tag";) continue;
    shown >> tag_;
    name_ = "bpf_prog_" + tag_ + "_" + name;
  }

  [[nodiscard]] const std::string& id() const { return id_; }
  [[nodiscard]] const std::string& name() const { return name_; }  // in kallsyms
  [[nodiscard]] pid_t holder() const { return holder_.pid(); }

 private:
  std::filesystem::path shown_;
  Process holder_;
  std::string id_;
  std::string tag_;
  std::string name_;
};

class NamesOfBpfProgramsTest : public NamesKernelTest {
 protected:
  NamesOfBpfProgramsTest() { shell("head -c 64 /dev/zero >packet"); }

  [[nodiscard]] std::string run(const LoadedFilter& filter) const {
    return "bpftool prog run id " + filter.id() + " data_in " + path("packet").string() +
           " repeat 300000 >/dev/null";
  }
};

TEST_F(NamesOfBpfProgramsTest, AreThoseOfBpftool) {
  const LoadedFilter filter(path(""), source("busy_filter.bpf.c"), "busy_filter");
  const RecordedLocations locations = record({"sh", "-ec", run(filter)});
  EXPECT_GT(samples_in(locations, filter.name()), 40);
  EXPECT_THAT(names_in_module(locations, "[bpf]"), ::testing::Contains(filter.name()));
}

// kallsyms has no sizes, so the code of the unloaded program seems to belong to the one before it.
TEST_F(NamesOfBpfProgramsTest, AreNotThoseOfNeighboursWhereTheProgramIsUnloaded) {
  std::list<LoadedFilter> neighbours;
  for (const char* name : {"before_filter", "next_filter"})
    neighbours.emplace_back(path(""), source("busy_filter.bpf.c"), name);
  const LoadedFilter filter(path(""), source("busy_filter.bpf.c"), "busy_filter");
  neighbours.emplace_back(path(""), source("busy_filter.bpf.c"), "after_filter");
  const RecordedLocations locations =
      record({"sh", "-ec",
              run(filter) + "; kill " + std::to_string(filter.holder()) + "; while grep -q " +
                  filter.name() + " /proc/kallsyms; do sleep 0.1; done"});
  std::int64_t unnamed = 0;
  std::int64_t named = 0;
  for (const RecordedLocation& one : locations_of(locations, "[kernel.kallsyms]")) {
    if (!one.has_name()) unnamed += one.leaf_samples;
    if (one.names.front().starts_with("bpf_prog_")) named += one.leaf_samples;
  }
  EXPECT_GT(unnamed, 40);
  EXPECT_LT(named, 5);
}

}  // namespace
}  // namespace profd::e2e
