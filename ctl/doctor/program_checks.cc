#include "ctl/doctor/program_checks.h"

#include <elf.h>

#include <algorithm>
#include <array>
#include <cstdint>
#include <string>
#include <string_view>

#include "formats/elf/code_file.h"
#include "formats/elf/elf_file.h"
#include "formats/xray/map.h"

namespace profd {
namespace {

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

std::optional<CheckPoint> check_instrumentation(bool runs_library, int program) {
  const auto map = xray::read_function_map(program);
  if (!map) {
    if (!runs_library && !links_library(program)) return std::nullopt;
    return CheckPoint{"xray", CheckState::kNote,
                      "links libprofd_xray, but no function is instrumented: no calls can be "
                      "recorded",
                      "build it with clang -fxray-instrument"};
  }
  const std::string functions = std::to_string(map->functions.size()) + " instrumented functions";
  if (runs_library) {
    return CheckPoint{"xray", CheckState::kOk,
                      functions + " and libprofd_xray: --event xray can record its calls"};
  }
  return CheckPoint{"xray", CheckState::kNote,
                    functions + ", but no libprofd_xray: its calls can't be recorded while it runs",
                    "link it with -lprofd_xray and call profd_xray_start()"};
}

}  // namespace profd
