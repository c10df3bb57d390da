// The functions of XRay's function ids, from the instrumentation map of an ELF file.
//
// The section xray_instr_map has one entry for each sled, which is a place that can be patched.
// Newer compilers add an index of the sleds by function, xray_fn_idx. Ids count the functions from
// 1, in the order of the index, or of the sleds if there is no index. Source: LLVM, docs/XRay.rst,
// compiler-rt/lib/xray/xray_interface_internal.h and xray_init.cpp.
//
//     sled  := address i64, function i64, kind u8, always u8, version u8, 13 bytes   (32 bytes)
//     index := first sled, end of the sleds: both absolute                 (up to LLVM 16)
//            | first sled: relative to this field, number of sleds         (from LLVM 17)
//
// Addresses of version 2 are relative to their own fields. Those of versions 0 and 1 are absolute;
// in a position-independent file relocations set them (R_X86_64_RELATIVE, RELR).
//
// The files belong to other users, so every count and size is checked and limited. Only x86-64
// files are read.

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
  std::uint64_t address = 0;  // virtual address in the file
  std::uint8_t sleds = 0;     // bits 1 << Sled
  bool is_always = false;     // instrumented because of an attribute

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

// `fd` is borrowed and read with pread() only. kUnsupported: the file is not instrumented.
[[nodiscard]] Result<FunctionMap> read_function_map(int fd);

// The names in the symbol table of the functions of a map, by id - 1. A function without a symbol
// has an empty name, and so have the functions that are left when `budget` is spent or the names
// take 64 MiB.
[[nodiscard]] std::vector<std::string> read_function_names(int fd, const FunctionMap& map,
                                                           SymbolBudget& budget);

}  // namespace profd::xray
