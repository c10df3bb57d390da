// The JIT and interpreted code in one profile: the addresses of its functions in the profile, and
// the image that names them.
//
// A profile has no time, so each sampled function gets addresses of its own (formats/jit/image.h).
// An interpreted one has 2 bytes for each unit of bytecode, above all addresses of programs.
// Used on the worker. Only the parser reads code bytes and lines.

#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "collectors/parser/parser.h"
#include "daemon/profiles/interpreted_code.h"
#include "daemon/samples/jit_samples.h"
#include "formats/jit/image.h"
#include "formats/profile/profile.h"

namespace profd {

class JitImagePart {
 public:
  // Either may be null; together they have functions. `samples` must outlive *this. `others` are
  // the mapping lines of the profile that must not change. JIT functions keep the addresses at
  // which they ran, unless something else lies there.
  JitImagePart(const JitSamples* samples, const InterpretedFunctions* interpreted,
               std::span<const ProfileMapping> others);

  // What code it has: "jit" where it has JIT code, else "python" and the like, or "interpreted".
  [[nodiscard]] const std::string& name() const { return image_.name; }

  // The address in the profile of a pc of a function.
  [[nodiscard]] std::uint64_t place(std::uint32_t function, std::uint64_t pc) const {
    return pc - samples_->functions[function].address + layout_.addresses[function];
  }

  // The same for InterpretedFunctions::all()[index] and its image_pc().
  [[nodiscard]] std::uint64_t place_interpreted(std::size_t index, std::uint64_t pc) const {
    const std::size_t place = jit_functions() + index;
    return pc - image_.functions[place].address + layout_.addresses[place];
  }

  // Adds the image's mapping lines, and removes the ranges that they cover from the other lines.
  void add_lines(const std::string& path, std::vector<ProfileMapping>& lines) const;

  // The image, with the code bytes and lines that can be read. If it takes more than `max_bytes`,
  // it has names only.
  [[nodiscard]] std::string encode(Parser& parser, std::uint64_t max_bytes) const;

 private:
  [[nodiscard]] std::size_t jit_functions() const {
    return samples_ == nullptr ? 0 : samples_->functions.size();
  }
  void read_code(Parser& parser, JitImage& image) const;

  const JitSamples* samples_;
  JitImage image_;  // the JIT code first, without code and lines; then the interpreted one
  JitImageLayout layout_;
};

// Turns a runtime's name for a function into a symbol that both pprofs show completely. They remove
// parentheses and text in angle or square brackets from names, so braces replace these. The symbol
// is one line of UTF-8, 1,024 bytes at most.
[[nodiscard]] std::string jit_symbol(std::string_view name, std::uint64_t address);

}  // namespace profd
