// Makes the profile of one process image from its samples, and its entry in session.json. Used on
// the worker.

#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "daemon/names/symbol_budgets.h"
#include "daemon/profiles/entry_functions.h"
#include "daemon/profiles/jit_images.h"
#include "daemon/profiles/kernel_image.h"
#include "daemon/profiles/microseconds.h"
#include "daemon/profiles/object_images.h"
#include "daemon/profiles/wait_frames.h"
#include "daemon/samples/snapshot.h"
#include "formats/api/session_summary.h"
#include "formats/profile/profile.h"
#include "formats/profile/sample_times.h"

namespace profd {

// What the profiles of one session share.
struct SharedObjects {
  ObjectImages& objects;
  const KernelImage& kernel;
  EntryFunctions& entries;
  SymbolBudgets& symbols;
  JitImages* jit = nullptr;  // null: JIT code gets no names, and interpreted frames are left out
  // Of an event that has_blocks(), whose profiles count microseconds: those of all profiles, one
  // after the other. Null: they count samples.
  Microseconds* microseconds = nullptr;
  WaitFrames* waits = nullptr;  // cuts the kernel frames of blocks; null: they stay as they are
  bool has_roots = false;       // each stack ends in root_frame() (block_image.h)
};

struct BuiltProfile {
  // The JIT image, which the caller writes. Refers to the ProcessSnapshot.
  struct Jit {
    std::string line_path;
    JitImagePart part;
  };

  Profile profile;
  ProfileSummary summary;  // without path and samples, which are those of the written file
  std::optional<Jit> jit;
  std::vector<SampleTime> times;  // by record of the profile, in no order
};

// Adds the hit addresses to the objects in `shared`, so encode their images after the last profile.
[[nodiscard]] BuiltProfile build_profile(const ProcessSnapshot& process, std::uint64_t period,
                                         const SharedObjects& shared);

}  // namespace profd
