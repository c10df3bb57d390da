// The part of a profile that lies in code made at run time: where its functions lie in the profile,
// and the image that names them.
//
// A profile has no time, so each function that was sampled gets addresses of its own
// (formats/jit/image.h). Used on the worker; code bytes and lines are read by the parser alone.

#pragma once

#include <cstdint>
#include <map>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "collectors/parser/parser.h"
#include "daemon/samples/jit_samples.h"
#include "formats/jit/image.h"
#include "formats/profile/profile.h"

namespace profd {

// Where the functions of a profile may lie.
struct JitRoom {
  // Empty: where they ran, if nothing else lies there; else one after the other in here.
  AddressRange own;

  [[nodiscard]] bool is_own() const { return own.end != 0; }
};

class JitImagePart {
 public:
  // `samples` has functions, and must outlive *this. `others`: the profile's other mapping lines
  // that must stay as they are.
  JitImagePart(const JitSamples& samples, std::span<const ProfileMapping> others,
               const JitRoom& room);

  // Where a pc of a function lies in the profile.
  [[nodiscard]] std::uint64_t place(std::uint32_t function, std::uint64_t pc) const {
    return pc - samples_->functions[function].address + layout_.addresses[function];
  }

  // Adds the image's lines, and takes out of the others what they cover.
  void add_lines(const std::string& path, std::vector<ProfileMapping>& lines) const;

  // With code bytes and lines as far as they can be had; where that is more than `max_bytes`, with
  // names alone.
  [[nodiscard]] std::string encode(Parser& parser, std::uint64_t max_bytes) const;

 private:
  void read_code(Parser& parser, JitImage& image) const;

  const JitSamples* samples_;
  JitImage image_;  // without code and lines
  JitImageLayout layout_;
};

// A runtime's name for a function as a symbol that both pprofs show whole: they take parentheses
// and what is in angle or square brackets out of names, so braces stand for these. One line of
// UTF-8, 1,024 bytes at most.
[[nodiscard]] std::string jit_symbol(std::string_view name, std::uint64_t address);

}  // namespace profd
