// libdw as the oracle of unwinding: the caller of a frame by libdw and by a rule, both evaluated
// for the same registers and the same memory.

#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "bpf/unwind_rows.h"

namespace profd::test {

// The location or value of a register of the caller.
struct Got {
  enum How { kUnchanged, kAtAddress, kInRegister, kValue, kNever };
  How how = kNever;
  std::uint64_t value = 0;  // the address, the register's number, the value

  friend bool operator==(const Got&, const Got&) = default;
};

struct CallerFrame {
  std::uint64_t cfa = 0;
  Got return_address;  // kNever: the stack ends here
  Got rbp;
  Got rbx;
  bool rsp_is_cfa = true;
};

// Register and memory values for which different expressions have different results.
[[nodiscard]] std::uint64_t register_value(unsigned number, std::uint64_t ip);
[[nodiscard]] std::uint64_t memory_at(std::uint64_t address);

// None for an unknown rule.
[[nodiscard]] std::optional<CallerFrame> caller_by_rule(const profd_rule& rule, std::uint64_t ip);

class LibdwCfi {
 public:
  struct Range {
    std::uint64_t start = 0;  // virtual addresses
    std::uint64_t end = 0;
  };
  struct Row : Range {
    CallerFrame caller;
  };

  // For .eh_frame or .debug_frame. None if the file does not have the section.
  static std::unique_ptr<LibdwCfi> open(const std::string& path, bool debug_frame = false);
  ~LibdwCfi();

  [[nodiscard]] const std::vector<Range>& functions() const { return functions_; }
  // The row and the caller at the address; none if libdw rejects the CFI.
  [[nodiscard]] std::optional<Row> row_at(std::uint64_t address) const;
  [[nodiscard]] std::optional<std::uint64_t> offset_of(std::uint64_t address) const;

 private:
  struct Handles;
  LibdwCfi();
  bool list_functions(bool debug_frame);

  std::unique_ptr<Handles> handles_;
  std::vector<Range> functions_;
};

}  // namespace profd::test
