// The entries of .eh_frame and .debug_frame: CIEs, which several functions share, and FDEs, one for
// each function (DWARF 5, 6.4.1; LSB Core 5.0, 10.6).
//
// Entries borrow the section's bytes. The functions keep no state, so a false or cyclic CIE pointer
// costs no more than a failed read.

#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

#include "formats/base/result.h"
#include "formats/elf/code_file.h"

namespace profd {

inline constexpr std::uint64_t kReturnAddressColumn = 16;  // of the psABI for x86-64

struct CfiSection {
  std::string bytes;
  std::uint64_t vaddr = 0;  // where the bytes are loaded; .debug_frame is not loaded
  bool is_eh_frame = true;
  bool has_known_end = true;  // false: found without section headers, ends at a terminator
};

// Both return at most `max_bytes`, decompressed. kNotFound: the file has no such section. Without
// section headers, .eh_frame is found through PT_GNU_EH_FRAME.
[[nodiscard]] Result<CfiSection> read_eh_frame(const CodeFile& file, std::size_t max_bytes);
[[nodiscard]] Result<CfiSection> read_debug_frame(const CodeFile& file, std::size_t max_bytes);

struct CfiEntry {
  std::uint64_t position = 0;  // in the section
  bool is_cie = false;
  std::uint64_t cie_position = 0;  // of an FDE
  std::string_view body;           // behind the id
  std::uint64_t body_position = 0;
};

struct CfiCie {
  std::uint64_t code_alignment = 1;
  std::int64_t data_alignment = -8;
  std::uint8_t pointer_encoding = 0;
  bool has_augmentation_data = false;
  bool is_signal_frame = false;
  // Written by Go's linker, which describes neither how rbp is saved nor where stacks end. Go code
  // has frame pointers, which give both.
  bool is_go = false;
  std::string_view instructions;
  std::uint64_t instructions_vaddr = 0;
};

struct CfiFde {
  std::uint64_t start = 0;  // a virtual address
  std::uint64_t bytes = 0;
  std::string_view instructions;
  std::uint64_t instructions_vaddr = 0;
};

// Iterates over the entries of a section.
class CfiEntries {
 public:
  explicit CfiEntries(const CfiSection& section) : section_(section) {}

  // None at the end, and if the next entry can't be found: then is_malformed() is true.
  [[nodiscard]] std::optional<CfiEntry> next();
  [[nodiscard]] bool is_malformed() const { return malformed_; }

 private:
  const CfiSection& section_;
  std::uint64_t position_ = 0;
  bool malformed_ = false;
};

// None if there is no complete entry at that position.
[[nodiscard]] std::optional<CfiEntry> read_cfi_entry(const CfiSection& section,
                                                     std::uint64_t position);
[[nodiscard]] std::optional<CfiCie> read_cie(const CfiSection& section, const CfiEntry& entry);
[[nodiscard]] std::optional<CfiFde> read_fde(const CfiSection& section, const CfiEntry& entry,
                                             const CfiCie& cie);

}  // namespace profd
