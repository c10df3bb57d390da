// Finds the table of functions of a Go program (pclntab) and what else its readers need of the
// file. Sources: src/runtime/symtab.go, src/internal/abi/symtab.go and src/cmd/link/internal/ld/
// pcln.go of Go 1.16 to 1.26.
//
// The table is found by the name of its section or, where the linker has merged that into another
// section, or there are no section headers, by its first bytes. Addresses in it and in moduledata
// are as the linker wrote them: in position-independent programs, too, they stand in the file
// beside their relocations.

#pragma once

#include <array>
#include <concepts>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <string_view>

#include "formats/base/cursor.h"
#include "formats/symbols/read_limits.h"

namespace profd::go {

// Reads of a file in small parts. The blocks around them are kept: a search in a table of functions
// reads the same ones again and again.
class BlockReader {
 public:
  explicit BlockReader(const LimitedFile& file);

  // Empty if they cannot be read. At most 64 bytes.
  [[nodiscard]] std::string_view bytes(std::uint64_t offset, std::size_t count);
  template <std::unsigned_integral T>
  [[nodiscard]] std::optional<T> number(std::uint64_t offset) {
    Cursor cursor(bytes(offset, sizeof(T)));
    const T value = cursor.read<T>();
    return cursor.ok() ? std::optional<T>(value) : std::nullopt;
  }
  // Up to a NUL; cut at kMaxTextBytes.
  [[nodiscard]] std::string text(std::uint64_t offset);

  static constexpr std::size_t kMaxTextBytes = 4096;

 private:
  static constexpr std::size_t kBlockBytes = 4096;
  static constexpr std::size_t kBlocks = 256;
  struct Block {
    std::uint64_t offset = ~std::uint64_t{0};
    std::size_t size = 0;
    std::array<char, kBlockBytes> data;
  };
  // What the file has from the offset on to the end of a block.
  [[nodiscard]] std::string_view rest_of_block(std::uint64_t offset);

  LimitedFile file_;
  std::unique_ptr<Block[]> blocks_;  // kBlocks, by their number modulo that
  std::array<char, 64> joined_{};    // of two blocks
};

// Layouts by the version of Go that introduced them.
enum class Layout : std::uint8_t { kGo116, kGo118, kGo120 };

// Where the parts of a table are. Offsets are of the file, addresses virtual.
struct Table {
  Layout layout = Layout::kGo120;
  std::uint64_t offset = 0;
  std::uint64_t address = 0;
  std::uint64_t bytes = 0;  // at most: what follows in its section or segment
  std::uint64_t functions = 0;
  std::uint64_t names = 0;  // from `offset` on, as the next
  std::uint64_t units = 0;
  std::uint64_t files = 0;
  std::uint64_t values = 0;  // by pc
  std::uint64_t entries = 0;
  std::uint64_t text_start = 0;
  std::uint64_t function_data = 0;  // address of go:func.*; 0: not known
};

// None: not a Go program, or one built by Go before 1.16.
[[nodiscard]] std::optional<Table> find_table(const LimitedFile& file, BlockReader& reader);

// The file offset of a virtual address that a segment loads from the file.
[[nodiscard]] std::optional<std::uint64_t> offset_of_address(const CodeFile& file,
                                                             std::uint64_t address);

}  // namespace profd::go
