// /proc/kallsyms: the kernel's own symbols, by address.

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
    std::uint64_t start;
    std::uint64_t end;      // start of the next symbol of any kind, at most 64 KiB on in a gap
    std::string_view name;  // without the module's; borrowed from the KernelSymbols
  };

  // Code symbols only (t, T, w, W); of several at one address the most telling name stays. Lines
  // that are no symbol are an error with their number. All-zero addresses (kptr_restrict) give no
  // symbols: check empty().
  static Result<KernelSymbols> parse(std::string text);

  [[nodiscard]] std::optional<Symbol> find(std::uint64_t address) const;
  [[nodiscard]] bool empty() const { return functions_ == 0; }
  [[nodiscard]] std::size_t size() const { return functions_; }

 private:
  struct Entry {
    std::uint64_t address;
    std::uint32_t name_offset;
    std::uint32_t name_bytes;  // 0: no function, but the end of the one before
  };
  void add(const Entry& entry);
  void end_module(std::uint64_t last_symbol, std::uint64_t next_module);

  std::string text_;            // the names of the entries, and nothing else
  std::vector<Entry> entries_;  // by address; the last is no function
  std::size_t functions_ = 0;
};

}  // namespace profd
