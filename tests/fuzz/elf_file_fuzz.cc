// Any bytes as an ELF file: an error, or symbols that stay within the caps and an image that reads.

#include <sys/mman.h>
#include <unistd.h>

#include <array>
#include <cstdint>

#include "formats/base/unique_fd.h"
#include "formats/elf/elf_file.h"
#include "formats/elf/image.h"
#include "tests/fuzz/require.h"

namespace {

void fill(int fd, const void* data, std::size_t size) {
  require(::ftruncate(fd, 0) == 0, "ftruncate");
  require(::pwrite(fd, data, size, 0) == static_cast<ssize_t>(size), "pwrite");
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  static const profd::UniqueFd file(::memfd_create("elf_file_fuzz", MFD_CLOEXEC));
  fill(file.get(), data, size);
  const auto summary = profd::read_elf_summary(file.get());
  if (!summary) return 0;
  const std::array<std::uint64_t, 5> addresses{0x1140, 0x1165, summary->entry, 0x401130,
                                               0x10ffff81000110};
  profd::SymbolBudget budget;
  const auto symbols = profd::find_elf_symbols(file.get(), addresses, budget);
  if (!symbols) return 0;
  require(symbols->size() <= addresses.size(), "at most one function an address");
  for (const profd::ElfSymbol& symbol : *symbols) {
    require(!symbol.name.empty() && symbol.name.size() <= 1024, "names within their cap");
  }
  const std::string image = profd::encode_file_image({*summary, {}, *symbols});
  fill(file.get(), image.data(), image.size());
  const auto copy = profd::read_elf_summary(file.get());
  require(copy.has_value(), "an image is an ELF file");
  require(copy->build_id == summary->build_id, "an image keeps the build id");
  require(copy->segments.size() == summary->segments.size(), "an image keeps the segments");
  return 0;
}
