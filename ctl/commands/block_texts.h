// What the subcommands print of samples that are lost, and of recordings of blocks, whose ledgers
// count microseconds (docs/api.md).

#pragma once

#include <cstdint>
#include <string>

#include "ctl/output/console.h"
#include "ctl/views/time_kind.h"
#include "formats/api/session_summary.h"

namespace profd {

// "5 of 495 samples"; of blocks "1.50 s of 59.4 s off the CPU".
[[nodiscard]] std::string lost_text(TimeKind kind, std::uint64_t lost, std::uint64_t taken);

// "5 ring_full"; of blocks "1.50 s ring_full". Any bytes.
[[nodiscard]] std::string reasons_text(TimeKind kind, const CountsByReason& reasons);

// Of a file: "495 samples"; of blocks, their time.
[[nodiscard]] std::string written_text(TimeKind kind, std::uint64_t written);

// Why a recording of blocks has none.
[[nodiscard]] std::string no_blocks_text(TimeKind kind);

// On standard error: how much of the time has no user stack, where that is more than a tenth, and
// of how many blocks the start or end is missing, where these are more than one in a hundred.
void print_block_remarks(const SessionSummary& summary, const Console& console);

}  // namespace profd
