// Any text as /proc/kallsyms: what is found holds the address that was asked for.

#include <cstdint>
#include <initializer_list>
#include <string>

#include "formats/proc/kallsyms.h"
#include "tests/fuzz/require.h"

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  const auto symbols =
      profd::KernelSymbols::parse(std::string(reinterpret_cast<const char*>(data), size));
  if (!symbols) return 0;
  for (const std::uint64_t address :
       {0UL, 1UL, 0xffffffff81000010UL, 0xffffffffc0000008UL, 0xffffffffc0801234UL, ~0UL}) {
    const auto symbol = symbols->find(address);
    if (!symbol) continue;
    require(symbol->start <= address && address < symbol->end, "a symbol holds its address");
    require(!symbol->name.empty() && symbol->name.size() <= size, "a symbol has a name");
  }
  return 0;
}
