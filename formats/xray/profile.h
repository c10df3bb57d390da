// Profiles of recorded calls for pprof: exclusive time and number of calls by stack.
//
// The address of a frame is that of its function's first instruction. Functions whose address is
// not known get addresses in an image of their own, which names them "xray:ID".

#pragma once

#include <cstdint>
#include <functional>
#include <string>
#include <vector>

#include "formats/profile/profile.h"
#include "formats/xray/call_tree.h"
#include "formats/xray/map.h"

namespace profd::xray {

// The addresses of the functions of a process. The high bits of an id are the number of its object
// (fdr_format.h). With one object, all bits are those of the function.
class CodeMap {
 public:
  struct Object {
    FunctionMap map;
    std::uint64_t bias = 0;  // added to the addresses of the file
  };

  CodeMap() = default;
  explicit CodeMap(std::vector<Object> objects) : objects_(std::move(objects)) {}

  [[nodiscard]] bool empty() const { return objects_.empty(); }

  // Null: no object has this id.
  [[nodiscard]] const Function* find(std::uint32_t id) const;
  // For an id that no object has, the address in the image of unknown functions.
  [[nodiscard]] std::uint64_t address_of(std::uint32_t id) const;

 private:
  std::vector<Object> objects_;
};

struct Profiles {
  Profile exclusive;                   // period 1 us
  Profile calls;                       // period 1: one sample is one call
  std::vector<std::uint32_t> unknown;  // ids in the profiles that no object has, sorted
  std::uint64_t cut_stacks = 0;        // stacks whose outermost frames were dropped
};

// The frames of all stacks of a profile together, which take 128 MiB.
inline constexpr std::uint64_t kMaxProfileFrames = std::uint64_t{1} << 24;

struct ProfileOptions {
  // If all stacks together have more frames, each stack keeps an equal number of its innermost
  // frames, 16 at least.
  std::uint64_t max_frames = kMaxProfileFrames;
  bool exclusive = true;  // make this profile
  bool calls = true;
};

// The caller adds the mappings.
[[nodiscard]] Profiles make_profiles(const CallTree& tree, double ns_per_tick, const CodeMap& code,
                                     const ProfileOptions& options = {});

// Records that a process running these objects can't write. A flipped bit in the trace can cause a
// few; many mean that the trace is of other objects.
struct Mismatch {
  std::uint64_t beyond = 0;   // functions with a higher id than the main program has
  std::uint64_t unlike = 0;   // functions with a record of a kind that they have no sled for
  std::uint32_t example = 0;  // the lowest id of both

  std::uint64_t functions = 0;     // with records
  std::uint64_t beyond_calls = 0;  // calls of the functions in `beyond`
  std::uint64_t calls = 0;         // of all functions

  // True: more than half mismatch, or more than 8 and more than 1 %. Calls of the functions in
  // `unlike` are not counted, since a single record puts a function there.
  explicit operator bool() const {
    return is_many(beyond_calls, calls) || is_many(unlike, functions);
  }

 private:
  static bool is_many(std::uint64_t some, std::uint64_t all) {
    constexpr std::uint64_t kFew = 8;
    return some > all / 2 || (some > kFew && some > all / 100);
  }
};
[[nodiscard]] Mismatch find_mismatch(const CallTree& tree, const CodeMap& code);

// The image that names the functions that no object has.
struct UnknownImage {
  std::string bytes;       // an ELF file
  ProfileMapping mapping;  // without path, which the caller sets
};
[[nodiscard]] UnknownImage make_unknown_image(const std::vector<std::uint32_t>& ids);

// "xray:ID"
[[nodiscard]] std::string unknown_name(std::uint32_t id);

// The name of a function by its address in the image of unknown functions.
[[nodiscard]] std::string unknown_name_at(std::uint64_t address);

using NameOf = std::function<std::string(std::uint32_t id)>;

enum class FoldedValue : std::uint8_t { kNanoseconds, kCalls };

// One line for each stack: "outer;inner 1234".
[[nodiscard]] std::string make_folded(const CallTree& tree, double ns_per_tick, FoldedValue value,
                                      const NameOf& name_of);

}  // namespace profd::xray
