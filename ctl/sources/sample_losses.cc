#include "ctl/sources/sample_losses.h"

#include <cstddef>

#include "formats/profile/pprof_reader.h"

namespace profd {
namespace {

// A text that names each process of a host seldom has 1 MiB. JSON takes many times its size in
// memory, which the samples need.
constexpr std::size_t kMaxOwnDataBytes = std::size_t{4} << 20;

}  // namespace

SampleLosses losses_of(const SessionSummary& summary) {
  SampleLosses losses{.written = summary.ledger.written,
                      .lost = list_by_reason(summary.ledger.lost)};
  CountsByReason incomplete;
  for (const ProfileSummary& profile : summary.profiles) {
    losses.user_samples += profile.user_samples;
    for (const auto& [reason, count] : profile.incomplete) incomplete[reason] += count;
  }
  losses.incomplete = list_by_reason(incomplete);
  return losses;
}

std::optional<SampleLosses> find_losses(std::string_view protobuf) {
  const auto own = find_own_data(protobuf);
  if (!own || own->empty() || own->size() > kMaxOwnDataBytes) return std::nullopt;
  const auto summary = parse_session_summary(*own);
  if (!summary) return std::nullopt;
  return losses_of(*summary);
}

}  // namespace profd
