// Encodes a Profile as a gperftools CPU profile: 64-bit little-endian slots, then the text list of
// mapped objects.
//
// gperftools_format.h has the grammar and the rules that make both pprofs read every frame right.

#pragma once

#include <string>

#include "formats/profile/profile.h"

namespace profd {

// The whole file. Decoy records (count 0) are appended where pprof's handler-frame heuristic would
// eat real frames. A period of 0 is written as 1, and mappings are left out whose path is empty or
// fits no line (line breaks, 64 KiB): nothing else differs when the file is decoded again.
[[nodiscard]] std::string encode_gperftools(const Profile& profile);

// The text list is last, and its first line is "build=DIR" when Profile::build_dir is not empty.
// Returns `file` with that line's DIR replaced, so that a profile can be moved with its objects.
// Unchanged when there is no such line.
[[nodiscard]] std::string with_build_dir(std::string file, const std::string& build_dir);

// A path that both pprofs read whole from a mapping line: no blanks, no control characters, no "
// (deleted)" or '$', at most 512 bytes, and for anything but the main executable a name that Perl's
// takes for a library (*.so, *.so.6, *.node, ...).
[[nodiscard]] bool readers_can_parse_path(const std::string& path, bool main_executable);

}  // namespace profd
