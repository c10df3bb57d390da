#include "formats/php/recognize.h"

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

#include <string.h>

#include "formats/elf/elf_tables.h"
#include "formats/elf/exported_symbols.h"
#include "formats/php/layouts.h"
#include "formats/unwind/other_part.h"

namespace profd {
namespace {

// Of the header that PHP adds to its answers: "X-Powered-By: PHP/8.2.20".
constexpr std::string_view kVersionHeader = "X-Powered-By: PHP/";
constexpr std::size_t kMaxVersionText = 16;
constexpr std::uint64_t kMaxSearched = std::uint64_t{32} << 20;
constexpr std::size_t kSearchedAtOnce = std::size_t{1} << 20;

// The next number of "8.2.20-dev", and the dot behind it. None: there is none up to 255.
std::optional<std::uint32_t> take_number(std::string_view& text) {
  std::uint32_t number = 0;
  std::size_t digits = 0;
  while (digits < text.size() && text[digits] >= '0' && text[digits] <= '9' && number <= 0xff) {
    number = number * 10 + static_cast<std::uint32_t>(text[digits++] - '0');
  }
  if (digits == 0 || number > 0xff) return std::nullopt;
  text.remove_prefix(digits);
  if (text.starts_with('.')) text.remove_prefix(1);
  return number;
}

// As in FoundRuntime; 0: none.
std::uint32_t version_of_text(std::string_view text) {
  const auto major = take_number(text);
  const auto minor = major ? take_number(text) : std::nullopt;
  if (!minor) return 0;
  return *major << 16 | *minor << 8 | take_number(text).value_or(kUnknownPatch);
}

// The place in a part of the file; npos: none.
std::size_t find_header(std::string_view part) {
  const void* const found =
      ::memmem(part.data(), part.size(), kVersionHeader.data(), kVersionHeader.size());
  if (found == nullptr) return std::string_view::npos;
  return static_cast<std::size_t>(static_cast<const char*>(found) - part.data());
}

// The parts overlap, so that each text is whole in one of them.
std::uint32_t find_php_version(const CodeFile& file) {
  constexpr std::size_t kOverlap = kVersionHeader.size() + kMaxVersionText;
  std::uint64_t left = kMaxSearched;
  std::string part(kSearchedAtOnce, '\0');
  for (const Elf64_Phdr& segment : file.program_headers()) {
    if (segment.p_type != PT_LOAD || (segment.p_flags & PF_W) != 0) continue;
    for (std::uint64_t at = 0; at < segment.p_filesz && left > 0;) {
      const std::size_t wanted =
          std::min({std::uint64_t{kSearchedAtOnce}, left, segment.p_filesz - at});
      const std::size_t bytes =
          elf::read_up_to(file.fd(), segment.p_offset + at, part.data(), wanted);
      const std::string_view searched = std::string_view(part).substr(0, bytes);
      if (const std::size_t found = find_header(searched); found != std::string_view::npos) {
        return version_of_text(searched.substr(found + kVersionHeader.size(), kMaxVersionText));
      }
      if (bytes < wanted || bytes <= kOverlap) break;
      at += bytes - kOverlap;
      left -= std::min<std::uint64_t>(left, bytes);
    }
  }
  return 0;
}

RuntimeVerdict examine_php(const CodeFile& file, const ExportedSymbols& symbols,
                           const Elf64_Sym& loop, FoundRuntime& found) {
  found.version = find_php_version(file);
  const php::Version* const version =
      php::find_version(found.version >> 16, found.version >> 8 & 0xff);
  if (version == nullptr) return RuntimeVerdict::kUnknownVersion;
  const auto globals = symbols.find("executor_globals");
  // Each thread has its own ones, at an offset that only the running program knows.
  if (!globals && symbols.find("executor_globals_offset")) return RuntimeVerdict::kFreeThreaded;
  if (!globals) return RuntimeVerdict::kNoSymbols;
  if (globals->st_size < version->current_execute_data + sizeof(std::uint64_t)) {
    return RuntimeVerdict::kUnknownLayout;
  }
  const CodeSegment* const segment = file.code().segment_of(loop.st_value);
  if (segment == nullptr) return RuntimeVerdict::kMalformed;
  const std::uint64_t skipped = loop.st_value - segment->vaddr;
  const std::uint64_t bytes = std::min(loop.st_size, segment->bytes - skipped);
  const FunctionPart other = find_other_part(file, loop.st_value, bytes);
  profd_runtime& runtime = found.runtime;
  runtime.bias = segment->offset - segment->vaddr;
  runtime.slot[0] = static_cast<std::int64_t>(globals->st_value + version->current_execute_data);
  runtime.slot_form[0] = PROFD_SLOT_GLOBAL;
  runtime.loop[0] = {.start = static_cast<std::uint32_t>(segment->offset + skipped),
                     .bytes = static_cast<std::uint32_t>(bytes)};
  runtime.loop[1] = {.start = other.start, .bytes = other.bytes};
  runtime.kind = PROFD_RUNTIME_PHP;
  runtime.layout = version->layout_number;
  return RuntimeVerdict::kKnown;
}

}  // namespace

Result<FoundRuntime> recognize_php(const CodeFile& file) {
  FoundRuntime found;
  const ExportedSymbols symbols(file);
  const auto loop = symbols.find("execute_ex");
  if (!loop || !symbols.find("zend_parse_parameters")) return found;
  found.kind = PROFD_RUNTIME_PHP;
  found.verdict = examine_php(file, symbols, *loop, found);
  return found;
}

}  // namespace profd
