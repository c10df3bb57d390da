// The answer to GET /metrics: the figures of status, for Prometheus.
//
// A caller sees the same as in status. Label values are profd's own names, reasons and a version,
// never a name that a process gave itself: so the number of series is bounded, and nobody else
// writes into a scraper's database.

#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "formats/api/status_info.h"

namespace profd {

// Every reason by which a counter of StatusInfo may count.
struct StatusReasons {
  std::vector<std::string_view> lost;                  // ledger.lost
  std::vector<std::string_view> incomplete;            // unwinding.incomplete
  std::vector<std::string_view> tables_refused;        // unwinding.tables.refused
  std::vector<std::string_view> jit_refused;           // jit.refused
  std::vector<std::string_view> interpreted_lost;      // interpreters.lost
  std::vector<std::string_view> interpreters_refused;  // interpreters.refused
  std::vector<std::string_view> windows_failed;        // continuous.failed
  std::vector<std::string_view> name_sources;          // names.sources
  std::vector<std::string_view> debug_places;          // names.debug_files.found
  std::vector<std::string_view> debug_refusals;        // names.debug_files.refused
  std::vector<std::string_view> dwarf_losses;  // names.lines.addresses_lost and files_refused
};

// Has a series for each reason, also where its count is 0: a counter that only appears with its
// first count has no rate.
[[nodiscard]] std::string metrics_of(StatusInfo status, const StatusReasons& reasons);

}  // namespace profd
