// Encodes a Profile as a gperftools CPU profile: 64-bit little-endian slots, then the text list of
// mapped objects.
//
// gperftools_format.h has the grammar and the rules that make both pprofs read every frame right.

#pragma once

#include <string>
#include <string_view>

#include "formats/profile/profile.h"

namespace profd {

// Returns the whole file. Decoy records (count 0) are appended where the heuristic of pprof for
// signal handlers would delete real frames. A period of 0 is written as 1. A mapping is left out if
// its path is empty or does not fit a line (line breaks, over 64 KiB). The decoded file differs in
// nothing else. `more_lines` of mapping_line() follow those of the profile.
[[nodiscard]] std::string encode_gperftools(const Profile& profile,
                                            std::string_view more_lines = {});

// The line of a mapping in the text list, for profiles that share it. Empty: it is left out.
[[nodiscard]] std::string mapping_line(const ProfileMapping& mapping);

// Replaces DIR in the line "build=DIR", so that a profile can be moved together with its objects.
// The line is the first of the text list if Profile::build_dir was not empty; without it, `file` is
// returned unchanged.
[[nodiscard]] std::string with_build_dir(std::string file, const std::string& build_dir);

// Whether both pprofs read the whole path from a mapping line. It has no blanks, no control
// characters, no '$', at most 512 bytes and, except for the main executable, a name that Perl's
// takes for that of a library (*.so, *.so.6, *.node, ...).
[[nodiscard]] bool readers_can_parse_path(const std::string& path, bool main_executable);

}  // namespace profd
