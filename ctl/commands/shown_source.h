// The source of a subcommand that shows samples: its options, and how it is opened.

#pragma once

#include <optional>
#include <string>

#include "ctl/client/client.h"
#include "ctl/options/command_line.h"
#include "ctl/output/console.h"
#include "ctl/sources/source.h"
#include "formats/base/result.h"

namespace profd {

// SOURCE, the targets, --since, --until, --last. Without any of source and time it is the last 10
// minutes of the history, unless the subcommand chooses another time; `by_default` names it in the
// help.
void add_shown_source(OptionList& list, SourceRequest& request,
                      const std::string& by_default = "the last 10 minutes of the history");

// The time of the history that the request is about. None: it is about something else.
[[nodiscard]] std::optional<TimeRange> range_of_source(const SourceRequest& request);

// Prints the notes of a source, and how many of its samples were lost. Each line begins with `of`.
void print_notes(const Source& source, const std::string& of, const Console& console);

// Prints the notes. kNotFound: the source has no samples.
[[nodiscard]] Result<Source> open_shown_source(Client& client, const SourceRequest& request,
                                               const Console& console);

}  // namespace profd
