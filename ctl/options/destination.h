// Where a result goes: a directory of files, or one file whose form its extension or --format says.

#pragma once

#include <cstdint>
#include <optional>
#include <string>

#include "formats/base/result.h"
#include "formats/profile/pprof_split.h"

namespace profd {

enum class ResultForm : std::uint8_t {
  kDirectory,   // gperftools profiles with their objects, and session.json
  kPprof,       // .pb.gz: profile.proto
  kFolded,      // .folded: lines of stacks, for flamegraph.pl and its kind
  kSpeedscope,  // .speedscope.json
};

struct Destination {
  std::string path;  // empty: a directory named after the result; "-": standard output
  ResultForm form = ResultForm::kDirectory;
  std::optional<PprofSplitKey> by{};  // `path` then is a directory with a file for each part
  bool is_by_default = false;         // `path` is a directory that the user has not named

  [[nodiscard]] bool is_file() const { return form != ResultForm::kDirectory && !by; }
};

// How much of the list of written files is printed.
struct WrittenList {
  bool is_quiet = false;             // nothing but a directory that the user has not named
  bool has_all = false;              // else the first lines
  std::string all_option = "--all";  // what gives all, for messages
};

// `format` is "dir", "pprof", "folded" or "speedscope"; empty: by the extension of `output`.
// kInvalidArgument: another format, or none for standard output.
[[nodiscard]] Result<Destination> make_destination(const std::string& output,
                                                   const std::string& format);

// The same result split by `key`: a directory of files, of profile.proto if no other form was
// given. kInvalidArgument: the destination is a file or standard output.
[[nodiscard]] Result<Destination> split_destination(Destination destination,
                                                    const std::string& key);

// The end of the names of files of this form; empty for a directory.
[[nodiscard]] std::string extension_of(ResultForm form);

}  // namespace profd
