// Which function an id of XRay's is, by the instrumentation map of an ELF file.
//
// A compiler leaves one entry a sled (a place that can be patched) in section xray_instr_map, and
// newer ones an index of them by function in xray_fn_idx. Ids count the functions from 1, in the
// order of the index, or of the entries where there is none. Source: LLVM, docs/XRay.rst,
// compiler-rt/lib/xray/xray_interface_internal.h and xray_init.cpp.
//
//     sled  := address i64, function i64, kind u8, always u8, version u8, 13 bytes   (32 bytes)
//     index := first sled, one behind the last: absolute                   (up to LLVM 16)
//            | first sled: relative to this field, number of sleds         (from LLVM 17)
//
// Addresses of version 2 are relative to their own fields; those of versions 0 and 1 are absolute,
// in a position-independent file by relocations (R_X86_64_RELATIVE, RELR).
//
// Files are other users' bytes: every count and size is checked and capped. Of x86-64 files only.

#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "formats/base/result.h"
#include "formats/elf/elf_file.h"

namespace profd::xray {

enum class Sled : std::uint8_t {
  kEnter = 0,
  kExit = 1,
  kTailExit = 2,
  kEnterWithArguments = 3,
  kCustomEvent = 4,
  kTypedEvent = 5,
};
inline constexpr std::uint8_t kSledKinds = 6;

struct Function {
  std::uint64_t address = 0;  // virtual, as in the file
  std::uint8_t sleds = 0;     // 1 << Sled of those that it has
  bool is_always = false;     // instrumented by an attribute

  [[nodiscard]] bool has(Sled sled) const {
    return (sleds >> static_cast<unsigned>(sled) & 1) != 0;
  }

  friend bool operator==(const Function&, const Function&) = default;
};

struct FunctionMap {
  std::vector<Function> functions;  // id 1 is the first

  [[nodiscard]] const Function* find(std::uint32_t id) const {
    return id == 0 || id > functions.size() ? nullptr : &functions[id - 1];
  }
};

// `fd` is borrowed, and read by pread only. kUnsupported: not an instrumented file.
[[nodiscard]] Result<FunctionMap> read_function_map(int fd);

// The names of all functions of a map as they stand in the symbol table, by id - 1; empty where
// there is none. Stops where `budget` is spent, and at 64 MiB of names.
[[nodiscard]] std::vector<std::string> read_function_names(int fd, const FunctionMap& map,
                                                           SymbolBudget& budget);

}  // namespace profd::xray
