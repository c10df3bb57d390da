#include "ctl/doctor/process_checks.h"

#include <elf.h>
#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <filesystem>
#include <fstream>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "formats/base/unique_fd.h"
#include "formats/elf/code_file.h"
#include "formats/elf/elf_file.h"
#include "formats/jit/runtimes.h"
#include "formats/proc/maps.h"
#include "formats/proc/stat.h"
#include "formats/proc/status.h"
#include "formats/xray/map.h"

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

// The perf map, which is in the root directory of the process.
std::optional<std::string> find_perf_map(const std::string& process) {
  const auto status = read_process_status(process + "/status");
  if (!status) return std::nullopt;
  const std::string map = "/tmp/perf-" + std::to_string(status->namespace_pid) + ".map";
  const std::string path = process + "/root" + map;
  struct stat info {};
  if (::lstat(path.c_str(), &info) != 0 || !S_ISREG(info.st_mode)) return std::nullopt;
  return map;
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

CheckPoint check_runtime(std::uint32_t pid, const std::string& process) {
  const Paths code_paths = code_paths_of(static_cast<pid_t>(pid));
  const Runtime* const runtime = find_runtime(code_paths);
  const auto dump = find_jitdump(code_paths);
  const auto map = find_perf_map(process);
  if (dump || map) return check_symbol_files(runtime, dump, map);
  if (runtime == nullptr) return {"runtime", CheckState::kOk, "native; no JIT detected"};
  const char* const lack =
      runtime->has_jit ? ": its JIT code has addresses and no symbols"
                       : ": stacks show the functions of the interpreter, not those of the script";
  return {"runtime", CheckState::kNote, std::string(runtime->name) + lack,
          std::string(runtime->remedy)};
}

// Opens the file that the process executes, even if its path was deleted. O_NONBLOCK: a write lease
// of another process can't delay the open.
UniqueFd open_program(const std::string& process) {
  UniqueFd fd(::open((process + "/exe").c_str(), O_RDONLY | O_NONBLOCK | O_NOCTTY | O_CLOEXEC));
  struct stat info {};
  if (fd.valid() && (::fstat(fd.get(), &info) != 0 || !S_ISREG(info.st_mode))) fd.reset();
  return fd;
}

CheckPoint check_path(const std::string& process) {
  std::error_code error;
  const std::string path = fs::read_symlink(process + "/exe", error);
  if (!path.ends_with(" (deleted)")) return {"program", CheckState::kOk, path};
  return {"program", CheckState::kNote,
          path + ": its functions come from an image that profd stores with the profile",
          "restart the process"};
}

CheckPoint check_unwinding(const CodeFile& file) {
  const auto& segments = file.program_headers();
  const bool has_index = std::ranges::any_of(
      segments, [](const Elf64_Phdr& segment) { return segment.p_type == PT_GNU_EH_FRAME; });
  if (has_index || file.find_section(".eh_frame") != nullptr) {
    return {"unwinding", CheckState::kOk, "has .eh_frame: no frame pointers are needed"};
  }
  if (file.find_section(".debug_frame") != nullptr) {
    return {"unwinding", CheckState::kOk, "has .debug_frame: no frame pointers are needed"};
  }
  if (file.find_section(".gopclntab") != nullptr) {
    return {"unwinding", CheckState::kOk, "Go program: it has frame pointers"};
  }
  return {"unwinding", CheckState::kFix,
          "no .eh_frame: stacks are complete only in code with frame pointers",
          "build it with -fasynchronous-unwind-tables, or -fno-omit-frame-pointer"};
}

CheckPoint check_symbols(const CodeFile& file) {
  if (file.find_section(".symtab") != nullptr || file.find_section(".gopclntab") != nullptr) {
    return {"symbols", CheckState::kOk, "functions have names"};
  }
  return {"symbols", CheckState::kNote, "stripped: only exported functions have names",
          "install its debug package, or build it without -s"};
}

CheckPoint check_build_id(int fd) {
  const auto summary = read_elf_summary(fd);
  if (summary && !summary->build_id.empty()) return {"build_id", CheckState::kOk, "present"};
  return {"build_id", CheckState::kNote,
          "none: profd can't know whether a debug package belongs to this build",
          "link it with -Wl,--build-id"};
}

CheckPoint program_not_opened(const std::string& process) {
  const Error error = fail_errno("could not open " + process + "/exe");
  const auto stat = read_process_stat(process + "/stat");
  if (stat && stat->is_kernel_thread()) {
    return {"program", CheckState::kOk, "kernel thread: it has no program and only kernel stacks"};
  }
  return {"program", CheckState::kUnknown, error.message,
          ::geteuid() == 0 ? "the process may be about to end"
                           : "the process may belong to another user: sudo profctl doctor"};
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

// The symbol of a function of the library is in the program, whether the library is static or
// shared; not in a stripped program with the static library.
bool links_library(int program) {
  constexpr std::uint64_t kMaxNamesBytes = std::uint64_t{64} << 20;
  constexpr std::string_view kFunction("\0profd_xray_enlist\0", 19);
  const auto file = CodeFile::open(program);
  if (!file) return false;
  return std::ranges::any_of(std::array{".dynstr", ".strtab"}, [&](const char* name) {
    const Elf64_Shdr* const names = file->find_section(name);
    return names != nullptr && names->sh_size <= kMaxNamesBytes &&
           file->read(names->sh_offset, names->sh_size).find(kFunction) != std::string::npos;
  });
}

}  // namespace

CheckReport check_program(int fd) {
  const Result<CodeFile> file = CodeFile::open(fd);
  if (!file) {
    return {{"unwinding", CheckState::kFix, file.error().message,
             "profd samples the user stacks of 64-bit x86 programs only"}};
  }
  return {check_unwinding(*file), check_symbols(*file), check_build_id(fd)};
}

std::optional<CheckPoint> check_instrumentation(pid_t pid, int program) {
  const auto map = xray::read_function_map(program);
  const bool has_library = runs_library(pid);
  if (!map) {
    if (!has_library && !links_library(program)) return std::nullopt;
    return CheckPoint{"xray", CheckState::kNote,
                      "links libprofd_xray, but no function is instrumented: no calls can be "
                      "recorded",
                      "build it with clang -fxray-instrument"};
  }
  const std::string functions = std::to_string(map->functions.size()) + " instrumented functions";
  if (has_library) {
    return CheckPoint{"xray", CheckState::kOk,
                      functions + " and libprofd_xray: --event xray can record its calls"};
  }
  return CheckPoint{"xray", CheckState::kNote,
                    functions + ", but no libprofd_xray: its calls can't be recorded while it runs",
                    "link it with -lprofd_xray and call profd_xray_start()"};
}

Result<CheckReport> check_process(std::uint32_t pid) {
  const std::string process = "/proc/" + std::to_string(pid);
  std::error_code ignored;
  if (!fs::exists(process, ignored)) {
    return fail(ErrorCode::kNotFound, "no such process " + std::to_string(pid),
                "'profctl ps' shows who used the CPU");
  }
  const UniqueFd program = open_program(process);
  if (!program.valid()) return CheckReport{program_not_opened(process)};
  CheckReport report{check_path(process)};
  for (CheckPoint& point : check_program(program.get())) report.push_back(std::move(point));
  report.push_back(check_runtime(pid, process));
  auto instrumentation = check_instrumentation(static_cast<pid_t>(pid), program.get());
  if (instrumentation) report.push_back(std::move(*instrumentation));
  return report;
}

}  // namespace profd
