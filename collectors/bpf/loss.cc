#include "collectors/bpf/loss.h"

namespace profd {

std::string_view loss_name(Loss loss) {
  switch (loss) {
    case Loss::kRingFull:
      return "ring_full";
    case Loss::kRingBusy:
      return "ring_busy";
    case Loss::kNoRing:
      return "no_ring";
    case Loss::kScratch:
      return "scratch";
    case Loss::kMalformedRecord:
      return "malformed_record";
    case Loss::kMemoryLimit:
      return "memory_limit";
    case Loss::kCount:
      break;
  }
  return "unknown";
}

}  // namespace profd
