// The instrumented binaries that a trace is of: where the functions of its ids are, and what they
// are called. Read with the caller's rights; nothing of it is another user's unless the caller
// names it.

#pragma once

#include <cstdint>
#include <string>
#include <unordered_map>
#include <vector>

#include "formats/base/result.h"
#include "formats/profile/profile.h"
#include "formats/xray/profile.h"

namespace profd {

class InstrumentedCode {
 public:
  // The main program first, then shared objects in the order in which the process loaded them.
  // `build_id` (hexadecimal) is what the main program's has to be; empty: any.
  static Result<InstrumentedCode> open(const std::vector<std::string>& paths,
                                       const std::string& build_id);

  [[nodiscard]] const xray::CodeMap& code() const { return code_; }
  // As in a process that has loaded them.
  [[nodiscard]] const std::vector<ProfileMapping>& mappings() const { return mappings_; }
  // Demangled; "xray:ID" where there is none.
  [[nodiscard]] std::string name_of(std::uint32_t id) const;

 private:
  InstrumentedCode() = default;

  xray::CodeMap code_;
  std::vector<ProfileMapping> mappings_;
  std::vector<std::vector<std::string>> names_;  // by object and id - 1
};

}  // namespace profd
