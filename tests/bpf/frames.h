// The `frames` program (frames.c): the addresses of its labels, the rows of its functions, and the
// stack of a chain of kinds.

#pragma once

#include <cstdint>
#include <map>
#include <string>
#include <vector>

#include "bpf/profd_abi.h"
#include "formats/unwind/unwind_table.h"
#include "tests/bpf/recording_sink.h"

namespace profd::test {

[[nodiscard]] std::string frames_path();

// The address of a label, by nm. Throws if there is none.
[[nodiscard]] std::uint64_t frames_label(const std::string& name);

// Rules by function. A function that is not in the map has no row.
using FrameRules = std::map<std::string, profd_rule>;
[[nodiscard]] FrameRules frames_rules();

// CFA = register + offset, the return address below it.
[[nodiscard]] profd_rule cfa_rule(std::uint8_t cfa_register, std::int32_t offset);

// The rows of the program's file, which is mapped at `mapping`.
[[nodiscard]] std::vector<UnwindRow> frames_rows(const FrameRules& rules,
                                                 const StoredMapping& mapping);

struct KnownFrame {
  std::uint64_t address;
  profd_frame_how how;

  friend bool operator==(const KnownFrame&, const KnownFrame&) = default;
};
void PrintTo(const KnownFrame& frame, std::ostream* out);

// Leaf first, from the leaf's label to enter().
[[nodiscard]] std::vector<KnownFrame> frames_stack(const std::vector<std::string>& kinds);
[[nodiscard]] std::vector<KnownFrame> frames_of(const StoredSample& sample);

// A file of whole pages with these bytes at these offsets, for in_file and in_pages. Returns its
// path.
using CodeBytes = std::map<std::uint64_t, std::string>;
[[nodiscard]] std::string write_code_file(const std::string& directory, const CodeBytes& code);

// Where frames.c maps it.
inline constexpr std::uint64_t kBoundaryOffset = std::uint64_t{1} << PROFD_FILE_REGION_SHIFT;
inline constexpr std::uint64_t kBoundaryAddress = 0x30000100000;  // of kBoundaryOffset
inline constexpr std::uint64_t kPagesAddress = 0x40000000000;

}  // namespace profd::test
