// A Parser that is no process of its own, for tests whose files are their own.

#pragma once

#include <unistd.h>

#include <string>
#include <vector>

#include "collectors/parser/parser.h"

namespace profd::test {

class LocalParser : public Parser {
 public:
  Result<UnwindSource> read_unwind_source(int fd, const DigestKey& key) override {
    return profd::read_unwind_source(fd, key);
  }
  Result<std::string> make_unwind_table(int fd, int debug_fd) override {
    return profd::make_unwind_table(fd, debug_fd);
  }
  Result<ElfSummary> read_elf_summary(int fd) override { return profd::read_elf_summary(fd); }
  Result<std::vector<ElfSymbol>> find_elf_symbols(int fd, std::span<const std::uint64_t> addresses,
                                                  SymbolBudget& budget) override {
    return profd::find_elf_symbols(fd, addresses, budget);
  }
  Result<std::vector<ElfSymbol>> list_elf_functions(int fd) override {
    return profd::list_elf_functions(fd);
  }
  [[nodiscard]] pid_t child() const override { return ::getpid(); }
  [[nodiscard]] std::uint64_t restarts() const override { return 0; }
};

}  // namespace profd::test
