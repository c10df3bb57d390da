// The lines and inlined functions of a file image, as DWARF.

#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include "formats/elf/dwarf_lines.h"
#include "formats/elf/elf_file.h"
#include "formats/elf/image.h"

namespace profd {

// Whether the frames say more than the symbols do: a line, or an inlined function.
[[nodiscard]] bool has_lines(std::span<const ImageFrames> frames);

// The last function that has the address; null: none has. `functions` is sorted. A function without
// size ends at the next one.
[[nodiscard]] const ElfSymbol* function_at(std::span<const ElfSymbol> functions,
                                           std::uint64_t address);

// Both sorted by address; each address of `frames` is in a function. Addresses without frames have
// line 0, which means none. `name` is that of the file.
[[nodiscard]] DwarfSections encode_image_lines(const std::string& name,
                                               std::span<const ElfSymbol> functions,
                                               std::span<const ImageFrames> frames);

}  // namespace profd
