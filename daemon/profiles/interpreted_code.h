// The code objects that the stacks of one process hit, decoded: names, files and lines of
// interpreted frames. Only the parser decodes them. Used on the worker.

#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include <boost/unordered/unordered_flat_map.hpp>

#include "collectors/parser/parser.h"
#include "daemon/samples/snapshot.h"
#include "formats/interpreters/code.h"
#include "formats/jit/image.h"

namespace profd {

// Names of frames whose code was never announced, or had no room.
inline constexpr const char* kUnnamedCode = "[unnamed]";
inline constexpr const char* kCodeOverShare = "[over share]";

// Whether a mapping of a profile with names is one of InterpretedFunctions::object_of().
[[nodiscard]] bool is_interpreted_object(std::string_view object);

// What an image has for the name of a function: braces for brackets, but of the names above.
[[nodiscard]] std::string interpreted_symbol(std::string_view name, std::uint64_t address);

class InterpretedFunctions {
 public:
  struct Function {
    std::uint64_t address = 0;  // of the code object; images have it elsewhere
    std::uint64_t bytes = 2;    // 2 for each unit of bytecode, of PHP for each line
    std::uint32_t start_line = 0;
    std::uint8_t kind = PROFD_RUNTIME_NONE;  // profd_runtime_kind; NONE: not announced
    DecodedCode code;                        // its texts are printable
    bool has_name = false;                   // false: kUnnamedCode or kCodeOverShare
  };

  InterpretedFunctions() = default;
  // Decodes the code of all interpreted frames of the process. Where the parser can't, they are
  // kUnnamedCode.
  InterpretedFunctions(Parser& parser, const ProcessSnapshot& process);

  [[nodiscard]] bool empty() const { return functions_.empty(); }
  [[nodiscard]] const std::vector<Function>& all() const { return functions_; }
  // The index in all() of the code with this number (InterpretedFrame::code).
  [[nodiscard]] std::size_t index_of(std::uint32_t code) const { return index_.at(code); }
  // The line of a frame (InterpretedFrame::position) of all()[index], the first one of the function
  // where no more is known. 0: the code there has none.
  [[nodiscard]] std::uint32_t line_of(std::size_t index, std::uint32_t position) const;
  // "[python]": what profiles have for the file of its machine code.
  [[nodiscard]] std::string object_of(std::size_t index) const;
  // Whether a native frame is but the trampoline of `python -X perf` through which the entry frame
  // of a segment was called: its name says once more what that frame does. `words` are those of a
  // stack, leaf first, `jit_name` is the name of words[index] in a perf map or jitdump. The
  // trampoline of another function repeats nothing.
  [[nodiscard]] bool is_repeated_by(std::span<const std::uint64_t> words, std::size_t index,
                                    std::string_view jit_name) const;
  // "python", the value of the label `runtime`; empty: none.
  [[nodiscard]] const std::string& runtime() const { return runtime_; }

 private:
  // Of runtimes whose frames have their line for a position.
  void add_lines_of_frames(const ProcessSnapshot& process);

  std::vector<Function> functions_;  // in the order of their first stack
  boost::unordered_flat_map<std::uint32_t, std::size_t> index_;
  std::string runtime_;
};

// The function of an image for it: one line sequence of its table, no code bytes. `file` is its
// number in JitImage::files.
[[nodiscard]] JitImageFunction image_function(const InterpretedFunctions::Function& function,
                                              std::uint32_t file);

// The name of its file in an image; empty: unknown.
[[nodiscard]] std::string image_file(std::string_view file);

// The pc at which a frame stands in the image, before it is moved.
[[nodiscard]] std::uint64_t image_pc(const InterpretedFunctions::Function& function,
                                     std::uint32_t position);

// Whether a native frame called the loop of a segment, whose frames are in front of that: there
// trampolines are. `words` are the UserFrame words of a stack, leaf first.
[[nodiscard]] bool called_segment(std::span<const std::uint64_t> words, std::size_t index);

// Whether it is the name of the function's trampoline: "py::f:/app/x.py".
[[nodiscard]] bool is_trampoline_of(const InterpretedFunctions::Function& function,
                                    std::string_view jit_name);

}  // namespace profd
