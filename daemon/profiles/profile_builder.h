// One process's samples as a profile that both pprofs read right, and what session.json says of it.
//
// Joins what the aggregator kept apart: stacks by their words, mappings by id. Used on the worker.

#pragma once

#include <cstdint>
#include <optional>
#include <string>

#include "daemon/history/jit_images.h"
#include "daemon/profiles/entry_functions.h"
#include "daemon/profiles/kernel_image.h"
#include "daemon/profiles/profiled_object.h"
#include "daemon/samples/snapshot.h"
#include "daemon/samples/symbol_budgets.h"
#include "formats/api/session_summary.h"
#include "formats/profile/profile.h"

namespace profd {

// Shared by the profiles of one session or window.
struct SharedObjects {
  ProfiledObjects& objects;
  const KernelImage& kernel;
  EntryFunctions& entries;
  SymbolBudgets& symbols;  // of all of them
  // For code made at run time, which has no names without.
  JitImages* jit = nullptr;
};

struct BuiltProfile {
  // Its image is to be written under the line path. Looks into the ProcessSnapshot.
  struct Jit {
    std::string line_path;
    JitImagePart part;
  };

  Profile profile;
  ProfileSummary summary;  // without path and samples, which the written file decides
  std::optional<Jit> jit;
};

// Tells `shared` what was hit, so its images are to be encoded after the last profile.
[[nodiscard]] BuiltProfile build_profile(const ProcessSnapshot& process, std::uint64_t period,
                                         const SharedObjects& shared);

}  // namespace profd
