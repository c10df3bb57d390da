#include "tests/e2e/named_programs.h"

#include <sched.h>
#include <sys/mount.h>
#include <unistd.h>

#include <algorithm>
#include <cstdio>
#include <fstream>
#include <optional>
#include <sstream>
#include <string_view>

#include "formats/profile/pprof_reader.h"
#include "tests/user_namespace.h"

namespace profd::e2e {
namespace {

namespace fs = std::filesystem;

// Mounts `debug` over /usr/lib/debug, for this process and its children only.
void use_debug_directory(const fs::path& debug) {
  if (::unshare(CLONE_NEWNS) != 0) ::_exit(126);
  const int root = test::leave_chroot();
  if (root < 0 || ::mount(nullptr, "/", nullptr, MS_REC | MS_PRIVATE, nullptr) != 0 ||
      ::fchdir(root) != 0 || ::chroot(".") != 0 ||
      ::mount(debug.c_str(), "/usr/lib/debug", nullptr, MS_BIND, nullptr) != 0) {
    ::_exit(126);
  }
  ::close(root);
}

Daemon::Options options_with(const fs::path& debug) {
  fs::create_directories(debug);
  fs::create_directories("/usr/lib/debug");
  return {.arguments = {},
          .process = {.directory = {}, .uid = 0, .environment = {}, .before_exec = [debug] {
                        use_debug_directory(debug);
                      }}};
}

RecordedLocations locations_in(const PprofProfile& profile) {
  RecordedLocations locations;
  for (const PprofLocation& location : profile.locations()) {
    RecordedLocation one{.address = location.address};
    if (location.mapping != PprofLocation::kNoMapping) {
      one.mapping = profile.text(profile.mappings()[location.mapping].file);
    }
    for (const PprofLine& line : profile.lines(location.lines)) {
      const PprofFunction& function = profile.functions()[line.function];
      const fs::path file = profile.text(function.file);
      one.names.emplace_back(profile.text(function.name));
      one.frames.push_back({.function = std::string(profile.text(function.system_name)),
                            .file = file.lexically_normal(),
                            .line = static_cast<unsigned long>(line.line)});
    }
    locations.push_back(std::move(one));
  }
  for (std::size_t i = 0; i < profile.samples().size(); ++i) {
    const auto stack = profile.stack(profile.samples()[i].stack);
    if (!stack.empty()) locations[stack.front()].leaf_samples += profile.values(i)[0];
  }
  return locations;
}

std::string text_of(const test::OracleFrames& frames) {
  std::ostringstream text;
  for (const test::OracleFrame& frame : frames) {
    text << "\n  " << frame.function << " " << frame.file << ":" << frame.line;
  }
  return text.str();
}

struct Range {
  std::uint64_t start = 0;
  std::uint64_t bytes = 0;
  bool has_size = true;
  std::string name;
};

// Lines as of nm -S: "START SIZE TYPE NAME", or without a size, which may then be up to 4 KiB.
std::vector<Range> ranges_in(const std::string& listed) {
  std::vector<Range> ranges;
  std::istringstream lines(listed);
  for (std::string line; std::getline(lines, line);) {
    Range range;
    int name = 0;
    char type = 0;
    if (std::sscanf(line.c_str(), "%lx %lx %c %n", &range.start, &range.bytes, &type, &name) < 3) {
      range.bytes = 4096;
      range.has_size = false;
      if (std::sscanf(line.c_str(), "%lx %c %n", &range.start, &type, &name) < 2) continue;
    }
    if (std::string_view("tTwWiI").find(type) == std::string_view::npos) continue;
    range.name = line.substr(static_cast<std::size_t>(name));
    ranges.push_back(std::move(range));
  }
  return ranges;
}

}  // namespace

NamedProgramsTest::NamedProgramsTest() : daemon_(options_with(debug_directory())) {}

fs::path NamedProgramsTest::source(const std::string& name) {
  return fs::path(SOURCE_DIRECTORY) / "tests/e2e/programs" / name;
}

std::string NamedProgramsTest::shell(const std::string& command) const {
  const Ended ended =
      run({"sh", "-ec", command},
          {.directory = directory_.path(), .uid = 0, .environment = {}, .before_exec = {}});
  EXPECT_EQ(ended.status, 0) << command << "\n" << ended.err;
  return ended.out;
}

void NamedProgramsTest::move_debug_file(const std::string& program) const {
  shell("id=$(readelf -n " + program +
        " | sed -n 's/.*Build ID: //p');"
        "rest=${id#??}; directory=debug/.build-id/${id%$rest}; mkdir -p $directory;"
        "objcopy --only-keep-debug " +
        program + " $directory/$rest.debug; strip " + program);
}

RecordedLocations NamedProgramsTest::record(const Args& command) {
  std::filesystem::remove(path("x.pb.gz"));
  Args args{"record", "-F", "499", "-o", path("x.pb.gz"), "--"};
  args.insert(args.end(), command.begin(), command.end());
  const Ended ended = daemon_.profctl(args);
  EXPECT_EQ(ended.status, 0) << ended.err;
  const auto profile = decode_pprof(slurp(path("x.pb.gz")));
  EXPECT_TRUE(profile.has_value());
  return profile ? locations_in(*profile) : RecordedLocations();
}

namespace {

// Whether nm lists both symbols for a range that contains the address.
bool are_folded(const std::string& program, std::uint64_t address, const std::string& first,
                const std::string& second) {
  std::set<std::string> names;
  for (const Range& range : ranges_in(run({"nm", "-S", "--defined-only", program}).out)) {
    if (range.has_size && address - range.start < range.bytes) names.insert(range.name);
  }
  return names.contains(first) && names.contains(second);
}

}  // namespace

void NamedProgramsTest::expect_frames_of_llvm(const RecordedLocations& locations,
                                              const std::string& program,
                                              const std::string& oracle) {
  const RecordedLocations ours = locations_of(locations, program);
  std::vector<std::uint64_t> addresses;
  for (const RecordedLocation& one : ours) addresses.push_back(one.address);
  ASSERT_GT(addresses.size(), 10U) << program;
  auto theirs = test::frames_of_llvm(oracle, addresses);
  ASSERT_EQ(theirs.size(), ours.size());
  std::size_t compared = 0;
  for (std::size_t i = 0; i < ours.size(); ++i) {
    // Code without DWARF: names of several symbols of one range are all right, and the file is that
    // of a symbol.
    if (theirs[i].size() == 1 && theirs[i][0].line == 0) continue;
    ++compared;
    // What Go's linker adds to the symbols of assembler functions, and Go's own tools do not show.
    std::string& outermost = theirs[i].back().function;
    if (outermost.ends_with(".abi0")) outermost.resize(outermost.rfind('.'));
    // The linker gave both functions this code, so both names are right.
    if (ours[i].frames.back().function != outermost &&
        are_folded(oracle, ours[i].address, ours[i].frames.back().function, outermost)) {
      outermost = ours[i].frames.back().function;
    }
    EXPECT_EQ(ours[i].frames, theirs[i])
        << std::hex << ours[i].address << text_of(ours[i].frames) << "\n not" << text_of(theirs[i]);
  }
  std::printf("%s: %zu of %zu addresses have lines\n", oracle.c_str(), compared, ours.size());
  EXPECT_GT(compared, 10U);
}

void NamedProgramsTest::expect_names_of_nm(const RecordedLocations& locations,
                                           const std::string& file, const std::string& oracle,
                                           const std::string& options) const {
  const std::vector<Range> ranges =
      ranges_in(shell("nm -S --defined-only --without-symbol-versions " + options + " " + oracle));
  const RecordedLocations ours = locations_of(locations, file);
  EXPECT_FALSE(ours.empty()) << file;
  for (const RecordedLocation& one : ours) {
    std::set<std::string> names;
    std::set<std::string> unsized;
    for (const Range& range : ranges) {
      if (one.address - range.start >= range.bytes) continue;
      (range.has_size ? names : unsized).insert(range.name);
    }
    const test::OracleFrame& outermost = one.frames.back();
    if (names.empty()) {
      EXPECT_TRUE(!one.has_name() || one.names.back().ends_with("@plt") ||
                  unsized.contains(outermost.function))
          << std::hex << one.address << " " << outermost.function;
    } else {
      EXPECT_TRUE(names.contains(outermost.function))
          << std::hex << one.address << " " << outermost.function << " not " << *names.begin();
    }
  }
  std::printf("%s: %zu addresses\n", oracle.c_str(), ours.size());
}

RecordedLocations locations_of(const RecordedLocations& locations, const std::string& file) {
  RecordedLocations found;
  std::ranges::copy_if(locations, std::back_inserter(found),
                       [&](const RecordedLocation& one) { return one.mapping.ends_with(file); });
  return found;
}

std::int64_t samples_in(const RecordedLocations& locations, const std::string& function) {
  std::int64_t samples = 0;
  for (const RecordedLocation& one : locations) {
    if (std::ranges::count(one.names, function) != 0) samples += one.leaf_samples;
  }
  return samples;
}

KernelFunctions kernel_functions() {
  constexpr std::string_view kPadding = "__pfx_";
  KernelFunctions functions;
  std::ifstream file("/proc/kallsyms");
  for (std::string line; std::getline(file, line);) {
    std::istringstream fields(line);
    std::uint64_t address = 0;
    std::string type;
    std::string name;
    std::string module;
    fields >> std::hex >> address >> type >> name >> module;
    if (name.starts_with(kPadding)) name.erase(0, kPadding.size());
    if (type == "t" || type == "T" || type == "w" || type == "W") {
      functions[address].emplace(name, module);
    }
  }
  return functions;
}

std::set<std::string> names_in(const RecordedLocations& locations) {
  std::set<std::string> names;
  for (const RecordedLocation& one : locations) names.insert(one.names.begin(), one.names.end());
  return names;
}

}  // namespace profd::e2e
