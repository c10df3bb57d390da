// /proc/kallsyms: the kernel's own symbols, by address.

#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "formats/result.h"

namespace profd {

class KernelSymbols {
 public:
  struct Symbol {
    std::uint64_t start;
    std::uint64_t limit;  // start of the next symbol, or of the next module's gap
    std::string_view name;
  };

  // Code symbols only (t, T, w, W); of several at one address the most telling name stays. Lines that are no symbol
  // are an error with their number. All-zero addresses (kptr_restrict) give no symbols: check empty().
  static Result<KernelSymbols> parse(std::string text);

  [[nodiscard]] std::optional<Symbol> find(std::uint64_t address) const;
  [[nodiscard]] bool empty() const { return entries_.empty(); }
  [[nodiscard]] std::size_t size() const { return entries_.size(); }

 private:
  struct Entry {
    std::uint64_t address;
    std::uint32_t name_offset;
    std::uint32_t name_bytes;
  };
  std::string text_;
  std::vector<Entry> entries_;  // by address
};

}  // namespace profd
