// The FDEs of a file's sections, sorted by file offset, so that each address belongs to at most
// one.
//
// If FDEs of one section overlap, each ends where the next one begins, as a binary search in
// .eh_frame_hdr would find them. If two begin at the same address, the first is used. FDEs of a
// section that is added later are used only for code without an FDE.

#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <vector>

#include "formats/elf/code_file.h"
#include "formats/unwind/cfi_entries.h"
#include "formats/unwind/cfi_program.h"
#include "formats/unwind/unwind_table.h"

namespace profd {

using CfiLossCounts = std::array<std::uint32_t, kCfiLossCount>;
inline void count(CfiLossCounts& losses, CfiLoss loss) { ++losses[static_cast<std::size_t>(loss)]; }

// A section and a small cache of its CIEs: a file with a million CIEs needs no more memory.
class CfiSource {
 public:
  explicit CfiSource(CfiSection section);

  struct Cie {
    CfiCie cie;
    std::optional<CfiState> initial;
  };
  // Null if there is no complete CIE at that position. Valid until the next call.
  [[nodiscard]] const Cie* cie_at(std::uint64_t position);
  [[nodiscard]] const CfiSection& section() const { return section_; }

 private:
  struct Slot {
    std::uint64_t position = ~std::uint64_t{0};
    std::optional<Cie> cie;
  };
  CfiSection section_;
  std::vector<Slot> slots_;
};

struct CfiFunction {
  std::uint32_t offset = 0;  // in the file
  std::uint32_t bytes = 0;
  std::uint32_t position = 0;  // of the FDE in its section
  std::uint32_t source = 0;    // index of that section in sources()
};

class CfiFunctions {
 public:
  // Sections that are added first take precedence.
  void add(CfiSection section, const CodeSegments& code);

  [[nodiscard]] std::span<const CfiFunction> all() const { return functions_; }  // by offset
  [[nodiscard]] CfiSource& source_file_of(const CfiFunction& function) {
    return *sources_[function.source];
  }
  [[nodiscard]] std::span<const std::unique_ptr<CfiSource>> sources() const { return sources_; }
  [[nodiscard]] CfiLossCounts& losses() { return losses_; }

 private:
  [[nodiscard]] std::vector<CfiFunction> list(CfiSource& source, const CodeSegments& code);
  [[nodiscard]] std::optional<CfiFunction> place(CfiSource& source, const CfiEntry& entry,
                                                 const CodeSegments& code);
  void separate(std::vector<CfiFunction>& functions);
  void fill_gaps(const std::vector<CfiFunction>& functions);

  std::vector<std::unique_ptr<CfiSource>> sources_;
  std::vector<CfiFunction> functions_;
  CfiLossCounts losses_{};
};

}  // namespace profd
