// Code that no CFI describes: what can be told of it by its bytes.
//
// - Padding between functions is never executed, so the rule before may go on through it.
// - Entries of a PLT, in a section that is named so, by the linkers' byte patterns.
// - The signal restorer: mov $15, %rax; syscall (rt_sigreturn), of musl and Go. Its frame is
// entered
//   by a return and so is looked up one byte before it, where its row begins.
// - The function at the ELF entry point: nothing called it.
// - Go's goexit: the return address of every goroutine's first function, where its chain of frame
//   pointers ends.
//
// All other code is unknown.

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

  // The rows of file offsets [begin, end), which must rise from call to call; the first is at
  // `begin`. None: only padding.
  [[nodiscard]] std::vector<UnwindRow> rows_of(std::uint64_t begin, std::uint64_t end);
  // There was more such code than is looked at, or more known parts in it than are taken.
  [[nodiscard]] bool is_over_limit() const { return over_limit_; }

 private:
  struct Known {
    std::uint64_t begin = 0;
    std::uint64_t end = 0;
    profd_rule rule{};
  };

  [[nodiscard]] std::string_view view(std::uint64_t offset, std::uint64_t bytes);
  [[nodiscard]] bool is_padding(std::uint64_t begin, std::uint64_t end);
  void find_restorers(std::uint64_t begin, std::uint64_t end, std::vector<Known>& known);
  void find_goroutine_exit(std::uint64_t begin, std::uint64_t end, std::vector<Known>& known);
  void find_plt(std::uint64_t begin, std::uint64_t end, std::vector<Known>& known);
  void add(std::vector<Known>& known, const Known& part);
  void add_plt_slot(std::uint64_t offset, std::string_view code, std::vector<Known>& known);
  void find_entry(std::uint64_t begin, std::uint64_t end, std::vector<Known>& known);

  const CodeFile& file_;
  std::vector<Elf64_Shdr> plts_;
  std::uint64_t entry_ = 0;  // file offset; 0: none
  std::uint64_t code_end_ = 0;
  bool is_go_;
  std::string block_;
  std::uint64_t block_offset_ = 0;
  std::uint64_t bytes_left_;
  bool over_limit_ = false;
};

}  // namespace profd
