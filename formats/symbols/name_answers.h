// The answers for the addresses of one search for names, while the sources are read in turn.

#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include "formats/symbols/code_names.h"

namespace profd {

class NameAnswers {
 public:
  explicit NameAnswers(std::span<const std::uint64_t> addresses);

  // The addresses that a further source may name, sorted, each once.
  [[nodiscard]] std::vector<std::uint64_t> open() const;

  // Ignored where the address has an answer that is at least as good. A later source may replace an
  // answer that is not final. Beyond kMaxNamesBytes in all an answer becomes kOverBudget.
  void add(AddressNames answer, bool is_final);
  void add_symbol(std::uint64_t address, NameSource source, const std::string& system_name,
                  bool is_folded, bool is_final);
  // A slot of the PLT that jumps to `function`.
  void add_plt(std::uint64_t address, const std::string& function);

  // The answers for `addresses`, in their order; `reason` is that of an address without a name.
  [[nodiscard]] std::vector<AddressNames> answers_for(std::span<const std::uint64_t> addresses,
                                                      NameSource reason) const;

 private:
  struct Entry {
    AddressNames answer;
    bool is_final = false;
  };
  // entries_.size(): there is none.
  [[nodiscard]] std::size_t index_of(std::uint64_t address) const;

  std::vector<Entry> entries_;  // sorted
  std::size_t bytes_ = 0;
  CodeFrame last_;  // the same function often names the next address, too
};

}  // namespace profd
