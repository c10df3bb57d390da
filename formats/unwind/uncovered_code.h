// Code that no CFI describes. Some of it is recognized by its bytes:
//
// - Padding between functions: it is never executed, so the rule before it is continued.
// - Entries of PLT sections, by the byte patterns of the linkers.
// - The signal restorer of musl and Go: mov $15, %rax; syscall (rt_sigreturn). Its frame is entered
//   by a return, and so is looked up one byte before it: its row begins there.
// - The function at the ELF entry point: it has no caller.
// - Where the stacks of Go's goroutines and threads end: goexit, mstart, clone (go_code.h).
//
// The rule of all other code is unknown.

#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "formats/elf/code_file.h"
#include "formats/unwind/unwind_table.h"

namespace profd {

class UncoveredCode {
 public:
  // Borrows the file.
  explicit UncoveredCode(const CodeFile& file);

  // The rows of file offsets [begin, end), which must increase from call to call; the first row is
  // at `begin`. Empty: only padding.
  [[nodiscard]] std::vector<UnwindRow> rows_of(std::uint64_t begin, std::uint64_t end);
  // A limit was reached: of the bytes to read, or of recognized parts.
  [[nodiscard]] bool is_over_limit() const { return over_limit_; }

 private:
  struct Known {
    std::uint64_t begin = 0;
    std::uint64_t end = 0;
    profd_rule rule{};
  };

  [[nodiscard]] std::string_view view(std::uint64_t offset, std::uint64_t bytes);
  [[nodiscard]] bool is_padding(std::uint64_t begin, std::uint64_t end);
  void find_restorers(std::uint64_t begin, std::uint64_t end);
  void find_go_ends(std::uint64_t begin, std::uint64_t end);
  void find_plt(std::uint64_t begin, std::uint64_t end);
  void add(const Known& part);
  void add_plt_slot(std::uint64_t offset, std::string_view code);
  void find_entry(std::uint64_t begin, std::uint64_t end);

  const CodeFile& file_;
  std::vector<Elf64_Shdr> plts_;
  std::uint64_t entry_ = 0;  // file offset; 0: none
  std::uint64_t code_end_ = 0;
  bool is_go_;
  std::string block_;
  std::uint64_t block_offset_ = 0;
  std::uint64_t bytes_left_;
  std::vector<Known> known_;  // in the range of rows_of()
  bool over_limit_ = false;
};

}  // namespace profd
