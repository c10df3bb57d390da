// What a view groups samples by: labels of the sample, or a property of each frame.

#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "ctl/views/samples.h"
#include "ctl/views/short_names.h"
#include "formats/base/result.h"

namespace profd {

enum class GroupKey : std::uint8_t {
  kProcess,  // a pid with its command name
  kCommand,  // the command name, of all processes that have it
  kUnit,
  kContainer,
  kUser,
  kThread,
  kRuntime,
  kState,  // of a block
  kWait,   // what a block waited for
  kFile,   // of the source; where that is unknown, the file with the code in brackets
  kLine,   // a function and a line of its source
  kFunction,
};
inline constexpr std::size_t kGroupKeys = 12;

[[nodiscard]] std::string_view name_of(GroupKey key);  // "process"
[[nodiscard]] bool is_of_frames(GroupKey key);
[[nodiscard]] bool has_object(GroupKey key);  // a function or a line

// "unit" or "unit,function": one or two different keys. kInvalidArgument for another text.
[[nodiscard]] Result<std::vector<GroupKey>> parse_group_keys(const std::string& text);

inline constexpr std::string_view kSeveral = "(several)";

// A value of one key, or of two together.
struct Group {
  std::string name;    // of the last key; any bytes
  std::string object;  // of a function or line: that of its frames (ObjectOfFrames)
  FrameKind kind = FrameKind::kNative;
  std::uint32_t parent = 0;  // of the table with one key less
};

// The file with the code of some frames.
class ObjectOfFrames {
 public:
  void add(const Samples& samples, std::uint32_t frame);
  [[nodiscard]] std::string text(const Samples& samples) const;  // empty: unknown, or no frames

 private:
  static constexpr std::uint32_t kNone = UINT32_MAX;
  static constexpr std::uint32_t kManyObjects = UINT32_MAX - 1;

  std::uint32_t object_ = kNone;  // number of the text
};

// The groups of label sets or of frames by some keys, all of which are of labels or all of frames.
struct GroupTable {
  std::vector<Group> groups;
  std::vector<std::uint32_t> of;  // by number of the label set or frame; empty: no keys
};

// Without keys, everything is one group without a name.
[[nodiscard]] GroupTable group_labels(const Samples& samples, const std::vector<GroupKey>& keys);
[[nodiscard]] GroupTable group_frames(const Samples& samples, const std::vector<GroupKey>& keys,
                                      NameForm names);

// "libc.so.6" for "/lib/x86_64-linux-gnu/libc.so.6".
[[nodiscard]] std::string_view base_name(std::string_view path);

}  // namespace profd
