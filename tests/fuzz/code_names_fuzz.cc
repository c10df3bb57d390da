// Any bytes as an ELF file and as its debug file: an answer for each address, as a child's answer
// has to be.

#include <sys/mman.h>
#include <unistd.h>

#include <array>
#include <cstddef>
#include <cstdint>

#include "formats/base/unique_fd.h"
#include "formats/symbols/find_code_names.h"
#include "tests/fuzz/require.h"

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  static const profd::UniqueFd file(::memfd_create("code_names_fuzz", MFD_CLOEXEC));
  require(::ftruncate(file.get(), 0) == 0, "ftruncate");
  require(::pwrite(file.get(), data, size, 0) == static_cast<ssize_t>(size), "pwrite");
  // Of functions and slots of the seeds, one twice.
  const std::array<std::uint64_t, 12> addresses{0x400010, 0x400038, 0x400028, 0x230,
                                                0x236,    0x240,    0x24c,    0x250,
                                                0x256,    0,        0x240,    ~std::uint64_t{0}};
  for (const int debug_file : {-1, file.get()}) {
    profd::SymbolBudget budget;
    const auto names = profd::find_code_names(file.get(), debug_file, addresses, budget);
    if (!names) return 0;
    require(names->size() == addresses.size(), "an answer for each address");
    for (std::size_t i = 0; i < addresses.size(); ++i) {
      require((*names)[i].address == addresses[i], "answers in their order");
      require(is_valid((*names)[i]), "valid answers");
    }
  }
  return 0;
}
