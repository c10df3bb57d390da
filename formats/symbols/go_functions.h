// The functions of a Go program, with inlined ones, files and lines, by the runtime's own table
// (pclntab), which stripped programs have, too. The sources of the format: formats/symbols/
// go_file.h. Only the parts that a search touches are read.

#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "formats/symbols/code_names.h"
#include "formats/symbols/go_file.h"

namespace profd {

class GoFunctions {
 public:
  // None: no program of Go 1.16 or later. `file` is borrowed by the object.
  [[nodiscard]] static std::optional<GoFunctions> open(const LimitedFile& file);

  // The frames at the address, the innermost inlined function first; none if no Go function
  // contains it. Lines are those of the address itself: for a caller, the address is one in its
  // call instruction. Go before 1.20 has no start lines of functions.
  [[nodiscard]] std::vector<CodeFrame> frames_at(std::uint64_t address);

  // Whether a hostile table has cost so much, or all the time that the limits allow, that
  // frames_at() finds nothing more.
  [[nodiscard]] bool is_exhausted() const { return work_left_ == 0; }

 private:
  // Bytes of tables by pc and of texts, of all searches: less than 1 s. 16,384 addresses in Go's
  // compiler take 25 million.
  static constexpr std::uint64_t kMaxWork = 80'000'000;
  // Between two checks of the time.
  static constexpr std::uint64_t kWorkWithoutClock = 4096;

  struct Function {
    std::uint64_t entry = 0;
    std::uint32_t name = 0;
    std::uint32_t files = 0;  // offsets of tables by pc; 0: there is none
    std::uint32_t lines = 0;
    std::uint32_t inlined = 0;  // indexes of the tree of inlined calls
    std::uint32_t unit = 0;
    std::uint32_t start_line = 0;
    std::uint64_t tree = 0;  // file offset of the tree; 0: there is none
  };
  struct InlinedCall {
    std::uint32_t name = 0;
    std::uint32_t start_line = 0;
    std::uint64_t call_address = 0;
  };

  GoFunctions(const LimitedFile& file, go::BlockReader reader, const go::Table& table)
      : file_(file), reader_(std::move(reader)), table_(table) {}

  [[nodiscard]] bool use(std::uint64_t work);
  [[nodiscard]] std::optional<std::uint64_t> entry_of(std::uint64_t index);
  [[nodiscard]] std::optional<std::uint64_t> index_of(std::uint64_t address);
  [[nodiscard]] std::optional<Function> function_at(std::uint64_t address);
  void read_arrays(Function& function, std::uint64_t offset, std::uint32_t value_count,
                   std::uint8_t data_count);
  [[nodiscard]] std::optional<std::uint64_t> tree_address(std::uint64_t data);
  [[nodiscard]] std::optional<std::int32_t> value_at(const Function& function, std::uint32_t table,
                                                     std::uint64_t address);
  [[nodiscard]] std::optional<InlinedCall> inlined_call(const Function& function,
                                                        std::uint32_t index);
  [[nodiscard]] std::string text_at(std::uint64_t part, std::uint32_t offset);
  [[nodiscard]] std::string file_at(const Function& function, std::uint64_t address);
  [[nodiscard]] CodeFrame frame_at(const Function& function, std::uint64_t address);
  void set_name(CodeFrame& frame, std::uint32_t name, std::uint32_t start_line);

  LimitedFile file_;
  go::BlockReader reader_;
  go::Table table_;
  std::uint64_t work_left_ = kMaxWork;
  std::uint64_t unchecked_work_ = 0;  // since the time was checked
};

}  // namespace profd
