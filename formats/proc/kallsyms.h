// /proc/kallsyms: the symbols of the kernel and its modules by address.

#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "formats/base/result.h"

namespace profd {

class KernelSymbols {
 public:
  struct Symbol {
    std::uint64_t start;  // of the padding before the function, where that has a symbol
    // The start of the next symbol of any kind. Between two modules, at most 64 KiB after the last
    // symbol of the first.
    std::uint64_t end;
    std::string_view name;    // without that of the module; borrowed from the KernelSymbols
    std::string_view module;  // "[nf_tables]", likewise; empty: the kernel itself
  };

  // Keeps the code symbols (types t, T, w, W); of several at one address, the one with the most
  // informative name. The padding before a function (`__pfx_NAME`, `__cfi_NAME`) is a part of it:
  // in a retpoline, a stack begins with the function that is about to be called as if that were a
  // caller, and callers are looked up one byte before their return address. kMalformed, with the
  // number of the line, for a line of another form or with a name of 64 KiB; kTooLarge for a text
  // of 4 GiB or with 65,536 modules. Where all addresses are 0 (kptr_restrict), the
  // result is empty().
  static Result<KernelSymbols> parse(std::string text);

  [[nodiscard]] std::optional<Symbol> find(std::uint64_t address) const;
  [[nodiscard]] bool empty() const { return functions_ == 0; }
  [[nodiscard]] std::size_t size() const { return functions_; }

 private:
  struct Entry {
    std::uint64_t address;
    std::uint32_t name_offset;
    std::uint16_t name_bytes;  // 0: this entry only ends the function before it
    std::uint16_t module;      // in modules_
  };
  void add(std::uint64_t address, std::string_view name, std::uint16_t module);
  void end_module(std::uint64_t last_symbol, std::uint64_t next_module);

  std::string names_;           // of the entries
  std::vector<Entry> entries_;  // by address; the last is not a function
  std::vector<std::string> modules_;
  std::size_t functions_ = 0;
};

}  // namespace profd
