// The profiles of a session or window as files, and the summary that becomes session.json. Runs on
// the worker.

#pragma once

#include <cstdint>
#include <set>
#include <string>

#include "daemon/profiles/profile_builder.h"
#include "daemon/samples/snapshot.h"
#include "daemon/storage/result_writer.h"
#include "formats/api/session_summary.h"
#include "formats/base/result.h"

namespace profd {

// Adds one profile a process image to `result`; the images that they name are the caller's to
// write. What the ledger calls written is counted in the files as they are on the disk.
[[nodiscard]] Result<SessionSummary> write_profiles(const SessionSnapshot& snapshot,
                                                    const SharedObjects& shared,
                                                    ResultWriter& result);

// Adds one profile as COMM.PID.prof, or COMM.PID.KIND.prof, with a number where `taken` has that
// name already. Samples and path of what it returns are those of the file on the disk.
[[nodiscard]] Result<ProfileSummary> write_profile(const Profile& profile, ProfileSummary summary,
                                                   std::set<std::string>& taken,
                                                   ResultWriter& result,
                                                   const std::string& kind = {});

// The header's period: microseconds for time, else in the event's own unit; 1 at least. Where the
// kernel chose the period of an event that is no time, the mean of its choices.
[[nodiscard]] std::uint64_t period_of(const SessionSnapshot& snapshot);

// Of the kernel's code bytes that were hit: one less than a return address.
[[nodiscard]] std::set<std::uint64_t> kernel_addresses(const SessionSnapshot& snapshot);

[[nodiscard]] bool has_kernel_frames(const SessionSnapshot& snapshot);

}  // namespace profd
