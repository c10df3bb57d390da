// A target of a request within the one of the command line. The daemon chooses processes that are
// of any term of a target, so it knows no target for what is in both of two.

#pragma once

#include "formats/api/start_request.h"

namespace profd {

struct NarrowedTarget {
  TargetRequest of_daemon;  // empty: everything
  // What is left of those samples, to be chosen by their labels. Empty: all.
  TargetRequest of_labels{};
};

// `source` is that of the command line. Either may be empty, which is everything.
[[nodiscard]] NarrowedTarget narrowed_target(const TargetRequest& source, TargetRequest request);

}  // namespace profd
