// A tree of calls in the form that the page reads (ctl/page/tree.js): JSON with each name once.
//
//     {"title","scope","noun","duration_ns","all":VALUE,"shown":VALUE,"left_out","period_ns",
//      "objects":[TEXT],"functions":{"name":[TEXT],"object":[N],"kind":[N]},
//      "sums":[[SELF,TOTAL,SELF_CPU,TOTAL_CPU]],
//      "nodes":{"depth":[N],"fn":[N],"self":[N],"rest":[N],"self_cpu":[N],"rest_cpu":[N]}}
//
// `scope` is the heading. VALUE is {"samples","cpu_ns"}, whatever kind of time it is. Blocks have a
// noun, which is empty where their number is not known, and no duration, by which the page shows
// percent of one CPU. Lists of functions and of nodes have one number for each; nodes stand in the
// order of the tree. `rest` are the samples of nodes below that prune() removed, so that the total
// of a node is `self`, `rest` and the totals of its children. Nanoseconds are absent where the
// event is no time, and those of nodes where each sample has `period_ns`. A kind is that of
// FrameKind; 4 is a label. `sums` has an entry for each function; it is absent where nothing was
// removed.

#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "ctl/views/call_tree.h"
#include "ctl/views/function_sums.h"

namespace profd {

// The text may stand in a script element: no name can end it. Names are printable, of at most
// kMaxPrintableBytes. `sums`: those of the tree before it was pruned; empty: not known.
[[nodiscard]] std::string flame_json(const CallTree& tree, std::string_view title,
                                     const FunctionSums& sums = {});

// What prune() removed below each node.
[[nodiscard]] std::vector<SampleValue> left_out_below(const CallTree& tree);

}  // namespace profd
