// Any bytes as an instrumented ELF file: an error, or functions by id, twice the same.

#include <sys/mman.h>
#include <unistd.h>

#include <cstdint>

#include "formats/base/unique_fd.h"
#include "formats/xray/map.h"
#include "tests/fuzz/require.h"

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  static const profd::UniqueFd file(::memfd_create("xray_map_fuzz", MFD_CLOEXEC));
  require(::ftruncate(file.get(), 0) == 0, "ftruncate");
  require(::pwrite(file.get(), data, size, 0) == static_cast<ssize_t>(size), "pwrite");
  const auto map = profd::xray::read_function_map(file.get());
  const auto again = profd::xray::read_function_map(file.get());
  require(map.has_value() == again.has_value(), "the same again");
  if (!map) return 0;
  require(map->functions == again->functions, "the same functions again");
  require(map->functions.size() <= size / 16, "no more functions than entries");
  profd::SymbolBudget budget;
  const auto names = profd::xray::read_function_names(file.get(), *map, budget);
  require(names.size() == map->functions.size(), "a name for each");
  return 0;
}
