// What profctl doctor checks of one process: what its profiles can show, and what they lack.

#pragma once

#include <sys/types.h>

#include <cstdint>
#include <span>

#include "formats/api/check_report.h"
#include "formats/api/status_info.h"
#include "formats/base/result.h"

namespace profd {

// The verdict of interpreters where the kernel lets profd read the frames of none.
inline constexpr const char* kRefusedByVerifier = "refused_by_verifier";

// Uses the rights of the caller. `interpreters` are those that the daemon has found in files.
// kNotFound: there is no such process.
[[nodiscard]] Result<CheckReport> check_process(
    std::uint32_t pid, std::span<const StatusInfo::Interpreters::File> interpreters = {});

}  // namespace profd
