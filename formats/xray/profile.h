// Profiles of what XRay measured: exclusive time and numbers of calls by stack, for pprof.
//
// A frame's address is that of its function's first instruction. Functions that no binary names get
// an address each in an image of their own, where they are called "xray:ID".

#pragma once

#include <cstdint>
#include <functional>
#include <map>
#include <string>
#include <vector>

#include "formats/profile/profile.h"
#include "formats/xray/call_tree.h"
#include "formats/xray/map.h"

namespace profd::xray {

// Where the functions of a process are. Ids with an object's number in their high bits
// (xray_fdr_format.h) are that object's; where only one object is given, ids are its own.
class CodeMap {
 public:
  struct Object {
    FunctionMap map;
    std::uint64_t bias = 0;  // what is added to the file's addresses
  };

  CodeMap() = default;
  explicit CodeMap(std::vector<Object> objects) : objects_(std::move(objects)) {}

  [[nodiscard]] bool empty() const { return objects_.empty(); }

  // Null: no object has it.
  [[nodiscard]] const Function* find(std::uint32_t id) const;
  // An address of the image of unknown functions where no object has the id.
  [[nodiscard]] std::uint64_t address_of(std::uint32_t id) const;

 private:
  std::vector<Object> objects_;
};

struct Profiles {
  Profile exclusive;                   // period 1 us
  Profile calls;                       // period 1: one sample is one call
  std::vector<std::uint32_t> unknown;  // ids in the profiles that no object has, sorted
  std::uint64_t cut_stacks =
      0;  // whose outermost frames were left out, for the sum of all is capped
};

// Frames of all stacks of a profile together: 128 MiB.
inline constexpr std::uint64_t kMaxProfileFrames = std::uint64_t{1} << 24;

struct ProfileOptions {
  // Where all stacks together have more, each keeps as many of its innermost as fit, 16 at least.
  std::uint64_t max_frames = kMaxProfileFrames;
  bool exclusive = true;  // which to make
  bool calls = true;
};

// Mappings are the caller's to add.
[[nodiscard]] Profiles make_profiles(const CallTree& tree, double ns_per_tick, const CodeMap& code,
                                     const ProfileOptions& options = {});

// Records that no process running these objects can have left. Few are damage, which a flipped bit
// does, and stay as they are; many say that the objects are others.
struct Mismatch {
  std::uint64_t beyond = 0;   // functions of the main program with a higher id than it has
  std::uint64_t unlike = 0;   // functions that left a record by a sled that they don't have
  std::uint32_t example = 0;  // of their ids, the lowest

  std::uint64_t functions = 0;     // that left records at all
  std::uint64_t beyond_calls = 0;  // of the first
  std::uint64_t calls = 0;

  // Most of them, or more than a handful and 1 %. A function is unlike by a single record, so that
  // its calls say nothing.
  explicit operator bool() const {
    return is_many(beyond_calls, calls) || is_many(unlike, functions);
  }

 private:
  static bool is_many(std::uint64_t some, std::uint64_t all) {
    constexpr std::uint64_t kHandful = 8;
    return some > all / 2 || (some > kHandful && some > all / 100);
  }
};
[[nodiscard]] Mismatch find_mismatch(const CallTree& tree, const CodeMap& code);

// What names functions that no object has.
struct UnknownImage {
  std::string bytes;       // an ELF file
  ProfileMapping mapping;  // its line; the path is the caller's to set
};
[[nodiscard]] UnknownImage make_unknown_image(const std::vector<std::uint32_t>& ids);

// "xray:ID"
[[nodiscard]] std::string unknown_name(std::uint32_t id);

using NameOf = std::function<std::string(std::uint32_t id)>;

enum class FoldedValue : std::uint8_t { kNanoseconds, kCalls };

// One line a stack: "outer;inner 1234".
[[nodiscard]] std::string make_folded(const CallTree& tree, double ns_per_tick, FoldedValue value,
                                      const NameOf& name_of);

}  // namespace profd::xray
