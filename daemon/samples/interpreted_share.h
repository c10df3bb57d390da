// What a snapshot needs to name its interpreted frames.

#pragma once

#include "daemon/samples/snapshot.h"

namespace profd {

// Fills in the code objects of each process, as they are known now, and the files with an
// interpreter, known and refused. To be called once the snapshot has its samples and the rings are
// drained: what was announced by then is known. Null: there are no interpreted frames.
void share_code(SessionSnapshot& snapshot, InterpretedCodes* codes, const Sampler& source);

}  // namespace profd
