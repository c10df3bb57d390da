// The checks of program_checks.h in a sandboxed child of profctl, since root asks about programs of
// other users.

#pragma once

#include "collectors/sandbox/child.h"
#include "collectors/sandbox/spawn.h"
#include "formats/api/check_report.h"

namespace profd {

// The points of both functions; where the child died or took too long, one point that says so.
// `program` is borrowed. `spawn` makes another child in tests.
[[nodiscard]] CheckReport check_program_in_child(bool runs_library, int program,
                                                 sandbox::Spawn spawn = {});

// For sandbox::run_as_child().
extern const sandbox::ChildKind kProgramCheckChild;

}  // namespace profd
