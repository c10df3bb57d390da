// Writes the ELF files of formats/elf/image.h and formats/jit/image.h: ELF header, program headers,
// code, build id, debug sections, symbols, strings, section headers.

#pragma once

#include <elf.h>

#include <cstdint>
#include <string>
#include <string_view>
#include <unordered_map>
#include <vector>

#include "formats/elf/elf_file.h"

namespace profd {

// A string table. Equal strings share their bytes: a file whose functions all have one long name
// must not have a larger image.
class ElfStrings {
 public:
  // Returns the offset of `text`, which is cut at a NUL and made printable, since pprof shows names
  // as they are: an escape code in one would reach the terminal.
  std::uint32_t add(std::string_view text);
  [[nodiscard]] const std::string& bytes() const { return bytes_; }

 private:
  std::string bytes_ = std::string(1, '\0');
  std::unordered_map<std::string, std::uint32_t> offsets_;
};

struct ElfCode {
  std::uint64_t address = 0;
  std::string_view bytes;  // borrowed
};

// A range of code that a section header describes.
struct ElfCodeSection {
  std::uint64_t address = 0;
  std::uint64_t bytes = 0;
  std::uint64_t file_offset = 0;   // for a section without bytes, the sh_offset that it states
  std::vector<ElfCode> code = {};  // sorted; zeros fill the gaps; empty: no bytes (NOBITS)

  [[nodiscard]] std::uint64_t end() const { return address + bytes; }
  [[nodiscard]] bool holds(std::uint64_t at) const { return at >= address && at - address < bytes; }
};

// The file offset of the code of an absolute image, also where it has no bytes.
inline constexpr std::uint64_t kElfTextOffset = 0x1000;

#if defined(__aarch64__)
inline constexpr std::uint16_t kElfHostMachine = EM_AARCH64;
#else
inline constexpr std::uint16_t kElfHostMachine = EM_X86_64;
#endif

class ElfImageWriter {
 public:
  // The first section is named ".text", which Perl's pprof looks for.
  ElfImageWriter(std::uint16_t type, std::uint16_t machine, std::uint64_t entry,
                 std::vector<ElfCodeSection> code);

  void set_segments(const std::vector<ElfSegment>& segments);
  void set_build_id(const std::string& id);
  void set_gap_name(const std::string& file_name);  // "[NAME]"; "[unknown]" by default
  void add_debug_section(std::string_view name, std::string bytes);

  // Fills the gap before the first function of each section, or a section without functions.
  void add_first_gaps(const std::vector<ElfSymbol>& functions);
  // `functions` is sorted. Leaves out those outside the code, fills gaps, and calls add_end().
  void add_functions(const std::vector<ElfSymbol>& functions);

  // Adds one function of that section, and fills the gap up to `next`.
  void add_function(const ElfSymbol& function, std::uint64_t next, std::size_t section);
  // Adds "_fini" after all other symbols: nm, which Perl's pprof runs, sorts by address and gives
  // the last symbol no size.
  void add_end();

  // Call it once, while the borrowed code exists.
  [[nodiscard]] std::string encode();

 private:
  struct DebugSection {
    std::string name;
    std::string bytes;
  };

  void add_code_section(std::size_t i, std::uint64_t end_bytes);
  [[nodiscard]] std::uint32_t gap_name();  // its offset in the strings
  void add_symbol(std::uint32_t name, std::uint64_t address, std::uint64_t bytes,
                  std::size_t section);
  [[nodiscard]] std::size_t encoded_bytes() const;
  void append_code(std::string& file);
  void append_section(std::string& file, std::string_view name, Elf64_Word type,
                      Elf64_Xword alignment, std::string_view bytes);
  [[nodiscard]] Elf64_Ehdr file_header(std::uint64_t program_headers,
                                       std::uint64_t section_headers) const;

  std::uint16_t type_;
  std::uint16_t machine_;
  std::uint64_t entry_;
  std::vector<ElfCodeSection> code_;
  std::vector<DebugSection> debug_;
  std::string gap_name_ = "[unknown]";
  std::uint32_t gap_name_offset_ = 0;
  std::string segments_;
  std::string note_;
  std::string symbols_;
  ElfStrings strings_;
  ElfStrings names_;
  std::vector<Elf64_Shdr> sections_;
};

}  // namespace profd
