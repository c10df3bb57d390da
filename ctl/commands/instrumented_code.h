// The instrumented binaries that wrote XRay traces: where their functions are, and their names.
// The files are read with the rights of the caller, who named them.

#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "formats/base/result.h"
#include "formats/profile/profile.h"
#include "formats/xray/profile.h"

namespace profd {

// The error with the path of the file that it is about.
[[nodiscard]] Error about(const std::string& path, Error error);

class InstrumentedCode {
 public:
  // `paths`: the main program first, then shared objects in the order in which the process loaded
  // them. `build_id` (hexadecimal) is what the main program must have; empty: any.
  static Result<InstrumentedCode> open(const std::vector<std::string>& paths,
                                       const std::string& build_id);

  [[nodiscard]] const xray::CodeMap& code() const { return code_; }

  // The mappings of a process that has loaded the binaries.
  [[nodiscard]] const std::vector<ProfileMapping>& mappings() const { return mappings_; }

  // The demangled name; "xray:ID" for a function without one.
  [[nodiscard]] std::string name_of(std::uint32_t id) const;

 private:
  InstrumentedCode() = default;

  xray::CodeMap code_;
  std::vector<ProfileMapping> mappings_;
  std::vector<std::vector<std::string>> names_;  // by object and id - 1
};

}  // namespace profd
