#include "ctl/sources/code_names.h"

#include <algorithm>
#include <chrono>
#include <limits>
#include <optional>

#include "formats/elf/code_file.h"
#include "formats/symbols/find_code_names.h"

namespace profd {
namespace {

// The virtual address in the file. An image without program headers has run-time addresses.
std::optional<std::uint64_t> address_in_file(const CodeSegments& code, std::uint64_t offset,
                                             std::uint64_t address) {
  if (code.all().empty()) return address;
  const auto segment = std::ranges::find_if(code.all(), [offset](const CodeSegment& one) {
    return one.offset <= offset && offset - one.offset < one.bytes;
  });
  if (segment == code.all().end()) return std::nullopt;
  return segment->vaddr + (offset - segment->offset);
}

}  // namespace

Result<std::vector<NamedAddress>> find_mapped_names(int fd, std::uint64_t start,
                                                    std::uint64_t file_offset,
                                                    std::span<const std::uint64_t> addresses) {
  const Result<CodeFile> file = CodeFile::open(fd);
  if (!file) return file.error();
  std::vector<NamedAddress> names(addresses.size());
  std::vector<std::uint64_t> in_file;
  std::vector<std::size_t> places;
  for (std::size_t i = 0; i < addresses.size(); ++i) {
    const auto address =
        address_in_file(file->code(), addresses[i] - start + file_offset, addresses[i]);
    if (!address) continue;
    in_file.push_back(*address);
    places.push_back(i);
  }
  SymbolBudget unlimited{.table_bytes = std::numeric_limits<std::uint64_t>::max(),
                         .time = std::chrono::hours(1)};
  for (std::size_t at = 0; at < in_file.size(); at += kMaxNamedAddresses) {
    const auto part =
        std::span(in_file).subspan(at).first(std::min(kMaxNamedAddresses, in_file.size() - at));
    const auto found = find_code_names(fd, -1, part, unlimited);
    if (!found) return found.error();
    for (std::size_t i = 0; i < found->size(); ++i) {
      if ((*found)[i].frames.empty()) continue;
      const CodeFrame& outermost = (*found)[i].frames.back();
      names[places[at + i]] = {
          .name = outermost.name, .file = outermost.file, .line = outermost.line};
    }
  }
  return names;
}

}  // namespace profd
