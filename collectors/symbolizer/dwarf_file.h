// The DWARF of a file or of its debug file, opened with libdw.

#pragma once

#include <libelf.h>

#include <cstdint>
#include <memory>
#include <utility>

#include <boost/system/result.hpp>
#include <elfutils/libdw.h>

#include "collectors/symbolizer/dwarf_frames.h"
#include "collectors/symbolizer/line_table.h"

namespace profd::symbolizer {

struct ElfDeleter {
  void operator()(Elf* elf) const { ::elf_end(elf); }
};
struct DwarfDeleter {
  void operator()(Dwarf* dwarf) const { ::dwarf_end(dwarf); }
};
using ElfPointer = std::unique_ptr<Elf, ElfDeleter>;
using DwarfPointer = std::unique_ptr<Dwarf, DwarfDeleter>;

class DwarfFile {
 public:
  // Takes the debug file where it has DWARF, else the file. The descriptors must stay open.
  // `decompressed_bytes` as of DwarfLimits.
  static boost::system::result<DwarfFile, DwarfLoss> open(const DwarfFiles& files,
                                                          std::uint64_t decompressed_bytes);

  [[nodiscard]] Dwarf* get() const { return dwarf_.get(); }
  [[nodiscard]] LineSections line_sections() const;

 private:
  struct Opened {
    ElfPointer elf;
    DwarfPointer dwarf;
  };
  static boost::system::result<Opened, DwarfLoss> open_one(int fd, std::uint64_t decompressed_bytes,
                                                           bool is_alt_file = false);
  explicit DwarfFile(Opened opened)
      : elf_(std::move(opened.elf)), dwarf_(std::move(opened.dwarf)) {}
  void set_alt_file(int fd, std::uint64_t decompressed_bytes);

  // In this order: a Dwarf ends before its Elf, and before the Dwarf that it refers to.
  ElfPointer alt_elf_;
  DwarfPointer alt_dwarf_;
  ElfPointer elf_;
  DwarfPointer dwarf_;
};

}  // namespace profd::symbolizer
