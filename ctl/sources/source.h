// A source: where the samples of a view come from. It is the same for every subcommand that shows
// samples:
//
//     DIR           a directory that record, stop, dump or export wrote
//     FILE          .pb.gz or .pb (of profd, or of another program that counts CPU time), .prof of
//                   gperftools, .folded
//     SESSION       the id of a session: its samples so far
//     SINCE..UNTIL  a time of the history, in the forms of --since and --until: 14:00..14:10,
//                   "20m ago..10m ago"; an absent UNTIL is now
//     nothing       the history, by --last or --since and --until
//
// A file or directory of that name comes first. The targets choose processes of it by its labels.

#pragma once

#include <optional>
#include <string>
#include <vector>

#include "collectors/sandbox/spawn.h"
#include "ctl/client/client.h"
#include "ctl/views/samples.h"
#include "formats/api/history_api.h"
#include "formats/api/session_summary.h"
#include "formats/base/result.h"

namespace profd {

struct SourceRequest {
  std::string name;      // empty: the history
  TimeRange range;       // of the history, without a name
  TargetRequest target;  // empty: everything in the source
  std::string event{};   // of the history, as in ExportRequest
  // A source that has no sample of the target is empty. Else it is an error.
  bool may_lack_target = false;
  // Whether the subcommand has --since and --last, which hints then name.
  bool has_range_options = true;
};

struct Source {
  Samples samples;
  std::string title;  // "nginx.pb.gz", "session 4f0c2a19", "the history from ... to ..."
  std::vector<std::string> notes{};  // what else is to be said: on standard error
  // Of the history and of a session: its ledger, and how the stacks of its processes ended.
  std::optional<SessionSummary> summary{};
  // Of the history: the windows that the samples are of, as a whole. It has parts of none.
  std::optional<TimeRange> windows{};
  // Why there are no samples: the source lacks the target (SourceRequest::may_lack_target).
  std::optional<Error> absence{};
};

// Whether the name has the form of a time of the history, and no file has it.
[[nodiscard]] bool is_range_name(const std::string& name);

// The range of a name like "14:00..14:10". kInvalidArgument: it has no such form.
[[nodiscard]] Result<TimeRange> parse_range_name(const std::string& name);

// Errors have a hint. kNotFound: no such source, or it has no sample of the target. `spawn` makes
// another child in tests (file_reader.h).
[[nodiscard]] Result<Source> open_source(Client& client, const SourceRequest& request,
                                         const sandbox::Spawn& spawn = {});

}  // namespace profd
