// Options that several subcommands have. Each function adds its options to `list`; the variables
// must live as long as the list.

#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "ctl/options/command_line.h"
#include "ctl/options/destination.h"
#include "formats/api/history_api.h"
#include "formats/api/start_request.h"

namespace profd {

// --pid, with `help`
void add_pids(OptionList& list, const std::string& help, std::vector<std::uint32_t>& pids);

// --unit, --container
void add_owners(OptionList& list, TargetRequest& target);

// --pid, --comm, --cgroup, --uid, --unit, --container. Where -n is --limit, --comm has no letter.
void add_processes(OptionList& list, TargetRequest& target,
                   const std::string& comm_names = "-n,--comm");

// The same and --all
void add_target(OptionList& list, TargetRequest& target);

// What a new session needs: add_target(), --no-children, --event, --freq and so on; and -g, which
// perf has for stacks.
void add_session_request(OptionList& list, StartRequest& request, bool& asks_for_stacks);

// --ask-runtime, an error without a pid in `target`
void add_ask_runtime(OptionList& list, const TargetRequest& target, bool& ask_runtime);

// --since, --until, --last; a range that ends before it begins is an error.
void add_range(OptionList& list, TimeRange& range);

// --event, of the history: cpu or off-cpu
void add_history_event(OptionList& list, std::string& event);

// --output and --format; `by_default` names in the help the directory that is used otherwise.
void add_output(OptionList& list, const std::string& by_default, Destination& destination);

// --quiet and WrittenList::all_option, which is not --all where that is a target.
void add_written_list(OptionList& list, WrittenList& written);

}  // namespace profd
