// The maps in which the BPF programs find interpreters, and mark which code objects they have
// announced. An interface, so that tests can use memory.

#pragma once

#include <cstdint>
#include <memory>

#include "bpf/interpreter_abi.h"
#include "collectors/bpf/programs.h"
#include "formats/base/result.h"

namespace profd {

class InterpreterMaps {
 public:
  InterpreterMaps() = default;
  InterpreterMaps(const InterpreterMaps&) = delete;
  InterpreterMaps& operator=(const InterpreterMaps&) = delete;
  virtual ~InterpreterMaps() = default;

  // `number` is 1 to PROFD_MAX_RUNTIMES - 1. An entry of zeros is unused.
  virtual void put_runtime(std::uint16_t number, const profd_runtime& runtime) = 0;
  // `number` is 1 to PROFD_MAX_LAYOUTS - 1.
  virtual void put_layout(std::uint8_t number, const profd_layout& layout) = 0;
  // Has the code announced again at the next sample with it.
  virtual void ask_again(std::uint64_t id) = 0;
};

// The maps profd_runtimes, profd_layouts and profd_code_tags, by mmap. `programs` must outlive
// them. Null where the programs were loaded without interpreters, as the kernel's verifier refused
// them (Programs::has_interpreters).
[[nodiscard]] Result<std::unique_ptr<InterpreterMaps>> open_interpreter_maps(
    const Programs& programs);

}  // namespace profd
