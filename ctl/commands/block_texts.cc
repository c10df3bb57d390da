#include "ctl/commands/block_texts.h"

#include <algorithm>
#include <limits>
#include <ostream>

#include "ctl/output/text.h"
#include "ctl/views/view_text.h"

namespace profd {
namespace {

std::string text_of_us(std::uint64_t us) {
  constexpr std::uint64_t kNsOfUs = 1000;
  constexpr std::uint64_t kMostUs = std::numeric_limits<std::int64_t>::max() / kNsOfUs;
  return cpu_time_text(static_cast<std::int64_t>(std::min(us, kMostUs) * kNsOfUs));
}

}  // namespace

std::string lost_text(TimeKind kind, std::uint64_t lost, std::uint64_t taken) {
  if (!is_of_blocks(kind)) return std::to_string(lost) + " of " + counted(taken, "sample");
  return text_of_us(lost) + " of " + text_of_us(taken) + " " + kind_names(kind).behind;
}

std::string reasons_text(TimeKind kind, const CountsByReason& reasons) {
  if (!is_of_blocks(kind)) return counts_text(reasons);
  std::string text;
  for (const auto& [reason, us] : reasons) {
    text += (text.empty() ? "" : ", ") + text_of_us(us) + " " + reason;
  }
  return text;
}

std::string written_text(TimeKind kind, std::uint64_t written) {
  return is_of_blocks(kind) ? text_of_us(written) : counted(written, "sample");
}

std::string no_blocks_text(TimeKind kind) {
  switch (kind) {
    case TimeKind::kOffCpu:
      return "no blocks: no thread of the target waited";
    case TimeKind::kRunnable:
      return "no blocks: no thread of the target waited for a CPU";
    default:
      return "no samples: no thread of the target ran or waited";
  }
}

void print_block_remarks(const SessionSummary& summary, const Console& console) {
  if (!summary.blocks) return;
  constexpr std::uint64_t kFewParts = 10;
  const BlockSummary& blocks = *summary.blocks;
  if (blocks.long_unsampled.us > blocks.blocked.us / kFewParts) {
    console.err << "profctl: " << text_of_us(blocks.long_unsampled.us) << " of "
                << text_of_us(blocks.blocked.us)
                << " have no user stack, since too many blocks began at those times\n";
  }
  const std::uint64_t incomplete = sum_of(blocks.incomplete);
  if (incomplete <= blocks.sampled.blocks / 100) return;
  console.err << "profctl: of some blocks the start or the end is missing: "
              << counts_text(blocks.incomplete) << " (docs/api.md)\n";
}

}  // namespace profd
