#include "ctl/doctor/process_checks.h"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <filesystem>
#include <fstream>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "collectors/host/find_file.h"
#include "ctl/doctor/program_child.h"
#include "formats/jit/runtimes.h"
#include "formats/proc/maps.h"
#include "formats/proc/stat.h"
#include "formats/proc/status.h"

namespace profd {
namespace {

namespace fs = std::filesystem;

using Paths = std::vector<std::string>;

const Runtime* find_runtime(const Paths& code_paths) {
  for (const std::string& path : code_paths) {
    if (const Runtime* runtime = runtime_of_file(path)) return runtime;
  }
  return nullptr;
}

// A runtime that writes a jitdump maps a page of it as code.
std::optional<std::string> find_jitdump(const Paths& code_paths) {
  const auto dump = std::ranges::find_if(code_paths, [](const std::string& path) {
    return fs::path(path).filename().string().starts_with("jit-");
  });
  return dump == code_paths.end() ? std::nullopt : std::optional(*dump);
}

// The perf map, which is in the root directory of the process. Its /tmp may be a file system of the
// user.
std::optional<std::string> find_perf_map(const std::string& process) {
  const auto status = read_process_status(process + "/status");
  const auto tmp = find_file(process + "/root/tmp");
  if (!status || !tmp) return std::nullopt;
  const std::string map = "perf-" + std::to_string(status->namespace_pid) + ".map";
  struct stat info {};
  if (::fstatat(tmp->get(), map.c_str(), &info, AT_SYMLINK_NOFOLLOW) != 0 ||
      !S_ISREG(info.st_mode)) {
    return std::nullopt;
  }
  return "/tmp/" + map;
}

// There is a jitdump, a perf map or both.
CheckPoint check_symbol_files(const Runtime* runtime, const std::optional<std::string>& dump,
                              const std::optional<std::string>& map) {
  const std::string name(runtime == nullptr ? "a runtime" : runtime->name);
  if (name == "Java" && !dump) {
    return {
        "runtime", CheckState::kNote,
        name + ": the JVM was asked for symbols, and code compiled since then is not in " + *map,
        "'profctl record --ask-runtime --pid PID' asks it again"};
  }
  const std::string message =
      name + ": writes the symbols of its JIT code to " + (dump ? *dump : *map);
  if (name == "Node.js" && !map) {
    return {"runtime", CheckState::kNote, message + ", those of the newest functions late",
            std::string(runtime->remedy)};
  }
  return {"runtime", CheckState::kOk, message};
}

using Interpreters = std::span<const StatusInfo::Interpreters::File>;

// Null: the daemon has found no interpreter in the files of the process.
const StatusInfo::Interpreters::File* find_interpreter(const Paths& code_paths,
                                                       Interpreters interpreters) {
  for (const std::string& path : code_paths) {
    const auto known = std::ranges::find(interpreters, path, &StatusInfo::Interpreters::File::path);
    if (known != interpreters.end()) return &*known;
  }
  return nullptr;
}

struct Refusal {
  std::string_view verdict;  // of the daemon
  std::string_view text;
  std::string_view remedy;
};

constexpr std::string_view kPerfJit =
    "python -X perf_jit (3.13 and later) writes the names of its functions to a jitdump";

constexpr auto kRefusals = std::to_array<Refusal>({
    {"free_threaded", "profd does not read free-threaded (or ZTS) builds yet", kPerfJit},
    {"unknown_version", "profd does not know this version", kPerfJit},
    {"unknown_layout", "a debug build, or another one with structures of its own", kPerfJit},
    {"no_symbols", "the symbols that extension modules link to are stripped",
     "use a build that exports them, as those of distributions do"},
    {"no_thread_state", "the code that leads to the state of its threads has an unknown form",
     kPerfJit},
    {"malformed", "the file contradicts itself", ""},
    {"no_number", "too many programs of this user have interpreters", ""},
    {kRefusedByVerifier, "this kernel's verifier refuses the programs that read its frames",
     "a newer kernel accepts them"},
});

CheckPoint check_interpreter(const StatusInfo::Interpreters::File& interpreter) {
  if (interpreter.verdict == "known") {
    return {"runtime", CheckState::kOk, interpreter.runtime + ": its functions have names"};
  }
  const auto* const refusal = std::ranges::find(kRefusals, interpreter.verdict, &Refusal::verdict);
  const bool is_known = refusal != kRefusals.end();
  const bool is_python = interpreter.runtime.starts_with("python");
  const bool has_remedy = is_known && (is_python || refusal->remedy != kPerfJit);
  return {"runtime", CheckState::kNote,
          interpreter.runtime + ": its functions have no names: " +
              (is_known ? std::string(refusal->text) : interpreter.verdict),
          has_remedy ? std::string(refusal->remedy) : std::string()};
}

CheckPoint check_runtime(std::uint32_t pid, const std::string& process, Interpreters interpreters) {
  const Paths code_paths = code_paths_of(static_cast<pid_t>(pid));
  const Runtime* const runtime = find_runtime(code_paths);
  const auto dump = find_jitdump(code_paths);
  const auto map = find_perf_map(process);
  const auto* const interpreter = find_interpreter(code_paths, interpreters);
  const bool is_named = interpreter != nullptr && interpreter->verdict == "known";
  if (is_named) return check_interpreter(*interpreter);
  if (dump || map) return check_symbol_files(runtime, dump, map);
  if (interpreter != nullptr) return check_interpreter(*interpreter);
  if (runtime == nullptr) return {"runtime", CheckState::kOk, "native; no JIT detected"};
  if (runtime->is_named) {
    return {"runtime", CheckState::kOk,
            std::string(runtime->name) + ": its functions have names, unless its build is unknown",
            "as root, 'profctl status' lists the interpreters that profd has met"};
  }
  const char* const lack =
      runtime->has_jit ? ": its JIT code has addresses and no symbols"
                       : ": stacks show the functions of the interpreter, not those of the script";
  return {"runtime", CheckState::kNote, std::string(runtime->name) + lack,
          std::string(runtime->remedy)};
}

CheckPoint check_path(const std::string& process) {
  std::error_code error;
  const std::string path = fs::read_symlink(process + "/exe", error);
  if (!path.ends_with(" (deleted)")) return {"program", CheckState::kOk, path};
  return {"program", CheckState::kNote,
          path + ": its functions come from an image that profd stores with the profile",
          "restart the process"};
}

CheckPoint program_not_opened(const std::string& process, const Error& error) {
  const auto stat = read_process_stat(process + "/stat");
  if (stat && stat->is_kernel_thread()) {
    return {"program", CheckState::kOk, "kernel thread: it has no program and only kernel stacks"};
  }
  if (::geteuid() != 0) {
    return {"program", CheckState::kUnknown, error.message,
            "the process may belong to another user: sudo profctl doctor"};
  }
  return {"program", CheckState::kUnknown, error.message,
          error.code == ErrorCode::kPermissionDenied
              ? "its user may ask: sudo -u USER profctl doctor"
              : "the process may be about to end"};
}

constexpr std::string_view kLibraryThread = "profd-xray";  // collectors/xray/app/link.c

// The library has one thread of that name in the process, however it was linked.
bool runs_library(pid_t pid) {
  std::error_code error;
  for (fs::directory_iterator task("/proc/" + std::to_string(pid) + "/task", error), end;
       !error && task != end; task.increment(error)) {
    std::ifstream file(task->path() / "comm");
    std::string name;
    if (std::getline(file, name) && name == kLibraryThread) return true;
  }
  return false;
}

}  // namespace

Result<CheckReport> check_process(std::uint32_t pid, Interpreters interpreters) {
  const std::string process = "/proc/" + std::to_string(pid);
  std::error_code ignored;
  if (!fs::exists(process, ignored)) {
    return fail(ErrorCode::kNotFound, "no such process " + std::to_string(pid),
                "'profctl ps' shows who used the CPU");
  }
  // Also where its path was deleted.
  const auto program = open_regular_file(process + "/exe");
  if (!program) return CheckReport{program_not_opened(process, program.error())};
  CheckReport report{check_path(process)};
  const bool has_library = runs_library(static_cast<pid_t>(pid));
  for (CheckPoint& point : check_program_in_child(has_library, program->get())) {
    report.push_back(std::move(point));
  }
  report.push_back(check_runtime(pid, process, interpreters));
  return report;
}

}  // namespace profd
