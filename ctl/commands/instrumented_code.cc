#include "ctl/commands/instrumented_code.h"

#include <elf.h>

#include <filesystem>
#include <iterator>
#include <limits>
#include <utility>

#include <boost/algorithm/hex.hpp>
#include <boost/core/demangle.hpp>

#include "collectors/host/find_file.h"
#include "formats/base/address_range.h"
#include "formats/elf/elf_file.h"
#include "formats/xray/fdr_format.h"

namespace profd {
namespace {

// Where Linux loads position-independent programs. Each object gets 64 GiB from there on.
constexpr std::uint64_t kLoadBase = 0x5555'5555'4000;
constexpr std::uint64_t kLoadStride = std::uint64_t{1} << 36;

void add_mappings(const ElfSummary& elf, std::uint64_t bias, const std::string& path,
                  std::vector<ProfileMapping>& mappings) {
  for (const ElfSegment& segment : elf.segments) {
    if ((segment.flags & PF_X) == 0) continue;
    const std::uint64_t start = page_of(segment.vaddr);
    const std::uint64_t end = page_of(segment.vaddr + segment.memory_bytes + kPage - 1);
    mappings.push_back({start + bias, end + bias, segment.offset - (segment.vaddr - start), path});
  }
}

struct Binary {
  ElfSummary elf;
  xray::FunctionMap map;
  std::vector<std::string> names;
  std::string absolute_path;
};

Result<Binary> read_binary(const std::string& path) {
  const auto fd = open_regular_file(path);
  if (!fd) return fd.error();
  Result<ElfSummary> elf = read_elf_summary(fd->get());
  if (!elf) return about(path, elf.error());
  Result<xray::FunctionMap> map = xray::read_function_map(fd->get());
  if (!map) return about(path, map.error());
  SymbolBudget unlimited{.table_bytes = std::numeric_limits<std::uint64_t>::max(),
                         .time = std::chrono::hours(1)};
  std::vector<std::string> names = xray::read_function_names(fd->get(), *map, unlimited);
  for (std::string& name : names) name = boost::core::demangle(name.c_str());
  std::error_code error;
  const std::filesystem::path absolute = std::filesystem::canonical(path, error);
  return Binary{std::move(*elf), std::move(*map), std::move(names),
                error ? path : absolute.string()};
}

Result<void> check_build_id(const std::string& path, const ElfSummary& elf,
                            const std::string& wanted) {
  std::string found;
  boost::algorithm::hex_lower(elf.build_id, std::back_inserter(found));
  if (wanted.empty() || found == wanted) return {};
  return fail(ErrorCode::kMalformed,
              path + " has the build id " + (found.empty() ? "(none)" : found) + ", not " + wanted,
              "give the binary that wrote the trace");
}

}  // namespace

Error about(const std::string& path, Error error) {
  error.message = path + ": " + error.message;
  return error;
}

Result<InstrumentedCode> InstrumentedCode::open(const std::vector<std::string>& paths,
                                                const std::string& build_id) {
  InstrumentedCode opened;
  std::vector<xray::CodeMap::Object> objects;
  for (const std::string& path : paths) {
    Result<Binary> binary = read_binary(path);
    if (!binary) return binary.error();
    if (objects.empty()) {
      if (auto same = check_build_id(path, binary->elf, build_id); !same) return same.error();
    }
    const bool is_movable = binary->elf.type == ET_DYN;
    const std::uint64_t bias = is_movable ? kLoadBase + objects.size() * kLoadStride : 0;
    add_mappings(binary->elf, bias, binary->absolute_path, opened.mappings_);
    objects.push_back({std::move(binary->map), bias});
    opened.names_.push_back(std::move(binary->names));
  }
  opened.code_ = xray::CodeMap(std::move(objects));
  return opened;
}

std::string InstrumentedCode::name_of(std::uint32_t id) const {
  if (code_.find(id) == nullptr) return xray::unknown_name(id);
  const bool is_packed = names_.size() > 1;  // an id then has the number of its object
  const std::size_t object = is_packed ? id >> xray::kObjectShift : 0;
  const std::uint32_t number = is_packed ? id & xray::kFunctionOfObject : id;
  const std::string& name = names_[object][number - 1];
  return name.empty() ? xray::unknown_name(id) : name;
}

}  // namespace profd
