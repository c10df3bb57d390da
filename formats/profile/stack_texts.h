// The stacks of a profile in the forms of other viewers, with inlined functions as frames of their
// own. The name of the thread, where a sample has one, is the outermost frame.

#pragma once

#include <string>

#include "formats/profile/pprof_profile.h"

namespace profd {

// One line a stack: "comm;main;work 12", outermost first, and the number of samples (the first
// value). Of times of blocks (block_names.h), it is the microseconds instead, and a stack without a
// whole one has no line. The input of flamegraph.pl, inferno and others. In names, ";" becomes ":"
// and control characters become "?", since both end a frame there.
[[nodiscard]] std::string folded_stacks(const PprofProfile& profile);

// https://www.speedscope.app/file-format-schema.json, with one profile for each process, the one
// with the most samples first. Processes of one pid differ in their other labels, but not in those
// of threads and blocks. The weights are the values of the default sample type.
[[nodiscard]] std::string speedscope_json(const PprofProfile& profile, const std::string& name);

}  // namespace profd
