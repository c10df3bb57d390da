// The code bytes and source lines of the sampled JIT code of a process, as its jitdumps have them.
// Only the parser reads them. Used on the worker.

#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <string>
#include <string_view>
#include <vector>

#include "collectors/parser/parser.h"
#include "daemon/samples/jit_samples.h"

namespace profd {

// Calls `visit` for each function that has a source, with its index in `samples`. A source that
// cannot be read is left out.
void read_jit_code(Parser& parser, const JitSamples& samples, bool with_code_bytes,
                   const std::function<void(std::size_t function, const JitCodeAnswer&)>& visit);

// The file of a line of the function with this name. Empty: unknown.
[[nodiscard]] std::string_view file_of_jit_line(const JitLine& line, std::string_view function);

// The path in a "file://" URL; other names stay as they are.
[[nodiscard]] std::string_view path_of_jit_file(std::string_view name);

class JitLines {
 public:
  struct Line {
    std::uint32_t code_offset = 0;
    std::uint32_t line = 0;
    std::string file{};  // empty: unknown
  };

  JitLines() = default;
  JitLines(Parser& parser, const JitSamples& samples);

  // The line at a byte of the code of a function. Null: unknown.
  [[nodiscard]] const Line* at(std::uint32_t function, std::uint64_t code_offset) const;
  // Where the function starts. Null: unknown.
  [[nodiscard]] const Line* first(std::uint32_t function) const;

 private:
  std::vector<std::vector<Line>> lines_;  // of each function, sorted by code_offset
};

}  // namespace profd
