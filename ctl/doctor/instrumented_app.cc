#include "ctl/doctor/instrumented_app.h"

#include <algorithm>
#include <array>
#include <cstdint>
#include <filesystem>
#include <fstream>
#include <string>
#include <string_view>
#include <system_error>

#include "ctl/doctor/check_point.h"
#include "formats/elf/code_file.h"
#include "formats/xray/map.h"

namespace profd {
namespace {

namespace fs = std::filesystem;

constexpr const char* kThreadOfLibrary = "profd-xray";  // collectors/xray/app/link.c

// It has one thread of this name, whichever way it was linked.
bool runs_library(pid_t pid) {
  std::error_code error;
  for (fs::directory_iterator task("/proc/" + std::to_string(pid) + "/task", error), end;
       !error && task != end; task.increment(error)) {
    std::ifstream file(task->path() / "comm");
    std::string name;
    if (std::getline(file, name) && name == kThreadOfLibrary) return true;
  }
  return false;
}

// Its own symbols name the library's one function, whether it is linked into it or shared. Of a
// stripped program with the static library nothing is known.
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

std::optional<CheckPoint> check_instrumentation(pid_t pid, int program) {
  const auto map = xray::read_function_map(program);
  const bool has_library = runs_library(pid);
  if (!map) {
    if (!has_library && !links_library(program)) return std::nullopt;
    return point(
        "xray", CheckState::kNote,
        "libprofd_xray is there, but no function is instrumented: no calls can be recorded",
        "build it with clang -fxray-instrument");
  }
  const std::string functions = std::to_string(map->functions.size()) + " instrumented functions";
  if (has_library) {
    return point(
        "xray", CheckState::kOk,
        functions + ", and libprofd_xray is there: its calls can be recorded by --event xray");
  }
  return point("xray", CheckState::kNote,
               functions + ", but not libprofd_xray: its calls can't be recorded while it runs",
               "link it with -lprofd_xray and call profd_xray_start()");
}

}  // namespace profd
