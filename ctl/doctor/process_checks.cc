#include "ctl/doctor/process_checks.h"

#include <elf.h>
#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <filesystem>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "ctl/doctor/check_point.h"
#include "ctl/doctor/instrumented_app.h"
#include "ctl/doctor/process_facts.h"
#include "formats/base/unique_fd.h"
#include "formats/elf/code_file.h"
#include "formats/elf/elf_file.h"
#include "formats/jit/runtimes.h"
#include "formats/proc/stat.h"

namespace profd {
namespace {

namespace fs = std::filesystem;

constexpr std::string_view kMakesCode = "code that it makes at run time has addresses and no names";
constexpr std::string_view kInterprets =
    "its functions are the interpreter's, not the script's: those have no frames of their own";

// By the files that are mapped as code.
const Runtime* find_runtime(const std::vector<std::string>& paths) {
  for (const std::string& path : paths) {
    if (const Runtime* runtime = runtime_of_file(path)) return runtime;
  }
  return nullptr;
}

// Where a runtime that was told to names its code: the file that it maps to mark it.
std::optional<std::string> find_jitdump(const std::vector<std::string>& paths) {
  const auto marker = std::ranges::find_if(paths, [](const std::string& path) {
    return fs::path(path).filename().string().starts_with("jit-");
  });
  return marker == paths.end() ? std::nullopt : std::optional(*marker);
}

// Or its perf map, in its own root.
std::optional<std::string> find_perf_map(std::uint32_t pid) {
  const Result<ProcessFacts> facts = read_process_facts(static_cast<pid_t>(pid));
  if (!facts) return std::nullopt;
  const std::string map = "/tmp/perf-" + std::to_string(facts->namespace_pid) + ".map";
  const std::string seen = "/proc/" + std::to_string(pid) + "/root" + map;
  struct stat status {};
  if (::lstat(seen.c_str(), &status) != 0 || !S_ISREG(status.st_mode)) return std::nullopt;
  return map;
}

// There is one of the two at least.
CheckPoint check_code_names(const Runtime* runtime, const std::optional<std::string>& dump,
                            const std::optional<std::string>& map) {
  const std::string who = runtime == nullptr ? "a runtime" : std::string(runtime->name);
  if (who == "Java" && !dump) {
    return point("runtime", CheckState::kNote,
                 who + ": was asked for its names, and lacks those of code made since, in " + *map,
                 "'profctl record --ask-runtime --pid PID' asks it again");
  }
  const std::string names = who + ": names the code that it makes in " + (dump ? *dump : *map);
  if (who == "Node.js" && !map) {
    return point("runtime", CheckState::kNote, names + ", the newest functions late",
                 std::string(runtime->remedy));
  }
  return point("runtime", CheckState::kOk, names);
}

CheckPoint check_runtime(std::uint32_t pid) {
  const std::vector<std::string> paths = code_paths_of(static_cast<pid_t>(pid));
  const Runtime* const runtime = find_runtime(paths);
  const auto dump = find_jitdump(paths);
  const auto map = find_perf_map(pid);
  if (dump || map) return check_code_names(runtime, dump, map);
  if (runtime == nullptr) return point("runtime", CheckState::kOk, "machine code, as far as seen");
  const std::string_view what = runtime->makes_code ? kMakesCode : kInterprets;
  return point("runtime", CheckState::kNote, std::string(runtime->name) + ": " + std::string(what),
               std::string(runtime->remedy));
}

// What the kernel runs, whatever became of its path. A write lease can't hold us up.
UniqueFd open_program(const std::string& process) {
  UniqueFd fd(::open((process + "/exe").c_str(), O_RDONLY | O_NONBLOCK | O_NOCTTY | O_CLOEXEC));
  struct stat status {};
  if (fd.valid() && (::fstat(fd.get(), &status) != 0 || !S_ISREG(status.st_mode))) fd.reset();
  return fd;
}

CheckPoint check_path(const std::string& process) {
  std::error_code error;
  const std::string path = fs::read_symlink(process + "/exe", error);
  if (path.ends_with(" (deleted)")) {
    return point("program", CheckState::kNote,
                 path + ": its functions come from what is kept of it", "restart the process");
  }
  return point("program", CheckState::kOk, path);
}

CheckPoint check_unwinding(const CodeFile& file) {
  const auto& segments = file.program_headers();
  const bool has_index = std::ranges::any_of(
      segments, [](const Elf64_Phdr& segment) { return segment.p_type == PT_GNU_EH_FRAME; });
  if (has_index || file.find_section(".eh_frame") != nullptr) {
    return point("unwinding", CheckState::kOk, ".eh_frame is there: no frame pointers are needed");
  }
  if (file.find_section(".debug_frame") != nullptr) {
    return point("unwinding", CheckState::kOk,
                 ".debug_frame is there: no frame pointers are needed");
  }
  if (file.find_section(".gopclntab") != nullptr) {
    return point("unwinding", CheckState::kOk, "Go keeps frame pointers");
  }
  return point("unwinding", CheckState::kFix,
               "no .eh_frame: its stacks are whole only where it keeps frame pointers",
               "build it with -fasynchronous-unwind-tables, or -fno-omit-frame-pointer");
}

CheckPoint check_symbols(const CodeFile& file) {
  if (file.find_section(".symtab") != nullptr || file.find_section(".gopclntab") != nullptr) {
    return point("symbols", CheckState::kOk, "functions have names");
  }
  return point("symbols", CheckState::kNote, "stripped: only exported functions have names",
               "install its debug package, or build it without -s");
}

CheckPoint check_build_id(int fd) {
  const auto summary = read_elf_summary(fd);
  if (summary && !summary->build_id.empty()) {
    return point("build_id", CheckState::kOk, "names the build");
  }
  return point("build_id", CheckState::kNote,
               "none: a debug package can't be told to be of this build",
               "link it with -Wl,--build-id");
}

CheckPoint no_program(const std::string& process) {
  const Error error = fail_errno("could not open " + process + "/exe");
  const auto stat = read_process_stat(process + "/stat");
  if (stat && stat->is_kernel_thread()) {
    return point("program", CheckState::kOk,
                 "a kernel thread: it has no program, and its stacks are the kernel's");
  }
  const bool may_all = ::geteuid() == 0;
  return point(
      "program", CheckState::kUnknown, error.message,
      may_all ? "it may be about to end" : "it may be another user's: sudo profctl doctor");
}

}  // namespace

CheckReport check_program(int fd) {
  const Result<CodeFile> file = CodeFile::open(fd);
  if (!file) {
    return {point("unwinding", CheckState::kFix, file.error().message,
                  "only 64-bit x86 programs have their user stacks sampled")};
  }
  return {check_unwinding(*file), check_symbols(*file), check_build_id(fd)};
}

Result<CheckReport> check_process(std::uint32_t pid) {
  const std::string process = "/proc/" + std::to_string(pid);
  std::error_code ignored;
  if (!fs::exists(process, ignored)) {
    return fail(ErrorCode::kNotFound, "there is no process " + std::to_string(pid),
                "'profctl ps' shows who used the CPU");
  }
  const UniqueFd program = open_program(process);
  if (!program.valid()) {
    return CheckReport{no_program(process)};
  }
  CheckReport report{check_path(process)};
  for (CheckPoint& found : check_program(program.get())) report.push_back(std::move(found));
  report.push_back(check_runtime(pid));
  auto instrumentation = check_instrumentation(static_cast<pid_t>(pid), program.get());
  if (instrumentation) report.push_back(std::move(*instrumentation));
  return report;
}

}  // namespace profd
