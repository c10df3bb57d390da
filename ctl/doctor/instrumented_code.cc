#include "ctl/doctor/instrumented_code.h"

#include <elf.h>
#include <fcntl.h>

#include <cstdlib>
#include <filesystem>
#include <limits>
#include <memory>
#include <string_view>
#include <utility>

#include <cxxabi.h>

#include "formats/base/unique_fd.h"
#include "formats/elf/elf_file.h"
#include "formats/xray/fdr_format.h"

namespace profd {
namespace {

constexpr std::uint64_t kPage = 4096;
// Where Linux loads position-independent programs; each object gets its own 64 GiB from there on.
constexpr std::uint64_t kLoadBase = 0x5555'5555'4000;
constexpr std::uint64_t kLoadStride = std::uint64_t{1} << 36;

std::string hexadecimal(std::string_view bytes) {
  constexpr std::string_view kDigits = "0123456789abcdef";
  std::string text;
  for (const char c : bytes) {
    const auto byte = static_cast<unsigned char>(c);
    text.push_back(kDigits[byte >> 4]);
    text.push_back(kDigits[byte & 15]);
  }
  return text;
}

std::string demangled(const std::string& name) {
  int status = 0;
  const std::unique_ptr<char, decltype(&std::free)> text(
      abi::__cxa_demangle(name.c_str(), nullptr, nullptr, &status), &std::free);
  return text != nullptr ? text.get() : name;
}

std::vector<ProfileMapping> mappings_of(const ElfSummary& elf, std::uint64_t bias,
                                        const std::string& path) {
  std::vector<ProfileMapping> mappings;
  for (const ElfSegment& segment : elf.segments) {
    if ((segment.flags & PF_X) == 0) continue;
    const std::uint64_t before = segment.vaddr % kPage;
    const std::uint64_t end = segment.vaddr + segment.memory_bytes;
    mappings.push_back({segment.vaddr - before + bias, (end + kPage - 1) / kPage * kPage + bias,
                        segment.offset - before, path});
  }
  return mappings;
}

Error about(const std::string& path, Error error) {
  error.message = path + ": " + error.message;
  return error;
}

struct Binary {
  ElfSummary elf;
  xray::FunctionMap map;
  std::vector<std::string> names;
  std::string absolute_path;
};

Result<Binary> read_binary(const std::string& path) {
  const UniqueFd fd(::open(path.c_str(), O_RDONLY | O_CLOEXEC | O_NONBLOCK | O_NOCTTY));
  if (!fd.valid()) return fail_errno("could not open " + path);
  Result<ElfSummary> elf = read_elf_summary(fd.get());
  if (!elf) return about(path, elf.error());
  Result<xray::FunctionMap> map = xray::read_function_map(fd.get());
  if (!map) return about(path, map.error());
  SymbolBudget unlimited{.table_bytes = std::numeric_limits<std::uint64_t>::max(),
                         .time = std::chrono::hours(1)};
  std::vector<std::string> names = xray::read_function_names(fd.get(), *map, unlimited);
  for (std::string& name : names) name = demangled(name);
  std::error_code error;
  const std::filesystem::path absolute = std::filesystem::canonical(path, error);
  return Binary{std::move(*elf), std::move(*map), std::move(names),
                error ? path : absolute.string()};
}

Error other_build(const std::string& path, const std::string& found, const std::string& wanted) {
  return fail(ErrorCode::kMalformed,
              path + " has the build id " + (found.empty() ? "(none)" : found) + ", not " + wanted,
              "give the binary that ran");
}

}  // namespace

Result<InstrumentedCode> InstrumentedCode::open(const std::vector<std::string>& paths,
                                                const std::string& build_id) {
  InstrumentedCode opened;
  std::vector<xray::CodeMap::Object> objects;
  for (const std::string& path : paths) {
    Result<Binary> binary = read_binary(path);
    if (!binary) return binary.error();
    const std::string found = hexadecimal(binary->elf.build_id);
    if (objects.empty() && !build_id.empty() && found != build_id) {
      return other_build(path, found, build_id);
    }
    const bool is_movable = binary->elf.type == ET_DYN;
    const std::uint64_t bias = is_movable ? kLoadBase + objects.size() * kLoadStride : 0;
    for (ProfileMapping& mapping : mappings_of(binary->elf, bias, binary->absolute_path)) {
      opened.mappings_.push_back(std::move(mapping));
    }
    objects.push_back({std::move(binary->map), bias});
    opened.names_.push_back(std::move(binary->names));
  }
  opened.code_ = xray::CodeMap(std::move(objects));
  return opened;
}

std::string InstrumentedCode::name_of(std::uint32_t id) const {
  if (code_.find(id) == nullptr) return xray::unknown_name(id);
  const bool is_packed = names_.size() > 1;
  const std::size_t object = is_packed ? id >> xray::kObjectShift : 0;
  const std::uint32_t number = is_packed ? id & xray::kFunctionOfObject : id;
  const std::string& name = names_[object][number - 1];
  return name.empty() ? xray::unknown_name(id) : name;
}

}  // namespace profd
