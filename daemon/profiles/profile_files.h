// Writes the profiles of a session as files, and makes the summary that becomes session.json. Used
// on the worker.

#pragma once

#include <cstdint>
#include <set>
#include <string>
#include <string_view>
#include <vector>

#include "daemon/names/code_naming.h"
#include "daemon/names/line_budget.h"
#include "daemon/profiles/profile_builder.h"
#include "daemon/profiles/wait_frames.h"
#include "daemon/samples/snapshot.h"
#include "daemon/storage/result_writer.h"
#include "formats/api/session_summary.h"
#include "formats/base/result.h"

namespace profd {

// Adds all files of a session to `result` without committing it: its profiles and the images beside
// them. Reads /proc/kallsyms.
[[nodiscard]] Result<SessionSummary> write_session(const SessionSnapshot& snapshot,
                                                   CodeNaming& naming, ResultWriter& result);

// Encodes the samples of a session part by part, each as a profile.proto with names, gzip. Its own
// data are session.json without profiles.
class PartEncoder {
 public:
  [[nodiscard]] Result<std::string> encode(const SessionSnapshot& part, CodeNaming& naming);

 private:
  LineBudget lines_ = LineBudget::of_taken_samples();
};

// Adds one profile for each process image to `result`. The caller writes the images that they name,
// except for JIT images. The ledger's `written` is counted by reading the files back from the disk.
[[nodiscard]] Result<SessionSummary> write_profiles(const SessionSnapshot& snapshot,
                                                    const SharedObjects& shared,
                                                    ResultWriter& result);

// The path of a profile in a result: COMM.PID.prof, or COMM.PID.KIND.prof, with a number when
// `taken` has that name already. An exec or a reused pid can give two processes the same name.
[[nodiscard]] std::string profile_path(const ProfileSummary& summary, std::set<std::string>& taken,
                                       const std::string& kind = {});

// Adds the file of a profile, and returns the samples of the file on the disk.
[[nodiscard]] Result<std::uint64_t> write_encoded_profile(const std::string& path,
                                                          std::string_view bytes,
                                                          ResultWriter& result);

// Adds one profile. Returns `summary` with the path and samples of the file on the disk.
[[nodiscard]] Result<ProfileSummary> write_profile(const Profile& profile, ProfileSummary summary,
                                                   std::set<std::string>& taken,
                                                   ResultWriter& result,
                                                   const std::string& kind = {});

// The period of the profiles' header: in microseconds for a time event, else in the event's own
// unit, and at least 1. If the kernel chose the periods of an event that is not time, their mean.
// Of an event that has_blocks(), 1.
[[nodiscard]] std::uint64_t period_of(const SessionSnapshot& snapshot);

// The summary without profiles, and its ledger with them. Of an event that has_blocks(), the ledger
// and the samples of `profiles` are microseconds.
[[nodiscard]] SessionSummary summarize(const SessionSnapshot& snapshot);
[[nodiscard]] SessionLedger ledger_of(const SessionSnapshot& snapshot,
                                      const std::vector<ProfileSummary>& profiles);

// The addresses of the kernel's code bytes that were hit: one less than a return address. `waits`
// as in SharedObjects.
[[nodiscard]] std::set<std::uint64_t> kernel_addresses(const SessionSnapshot& snapshot,
                                                       WaitFrames* waits = nullptr);

[[nodiscard]] bool has_kernel_frames(const SessionSnapshot& snapshot);

}  // namespace profd
