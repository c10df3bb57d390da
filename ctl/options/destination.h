// Where a result goes: a directory of files, or one file whose form its extension or --format says.

#pragma once

#include <cstdint>
#include <string>

#include "formats/base/result.h"

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

  [[nodiscard]] bool is_file() const { return form != ResultForm::kDirectory; }
};

// `format` is "dir", "pprof", "folded" or "speedscope"; empty: by the extension of `output`.
// kInvalidArgument: another format, or none for standard output.
[[nodiscard]] Result<Destination> make_destination(const std::string& output,
                                                   const std::string& format);

}  // namespace profd
