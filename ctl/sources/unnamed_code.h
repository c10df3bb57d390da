// How many samples are in code that has no name: their innermost frame is named after its file,
// "[libfoo.so]", or is "[unnamed]".

#pragma once

#include "ctl/views/samples.h"

namespace profd {

struct UnnamedCode {
  SampleValue all;
  SampleValue of_files;     // of these, in programs and libraries, for which there are debug files
  SampleValue of_runtimes;  // of these, in code that a runtime has compiled
  SampleValue of_interpreters;  // of these, in code that an interpreter runs
};

[[nodiscard]] UnnamedCode count_unnamed_code(const Samples& samples);

}  // namespace profd
