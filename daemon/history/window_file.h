// The file of a window of continuous mode, or of an hour of them.
//
//     STATE/windows/NAME.pb.gz   one window
//     STATE/hours/NAME.pb.gz     the windows of an hour, without addresses
//
// NAME is the start in UTC (files.h). The file is a profile of profile.proto, as it is opened by
// pprof. Its own data is the JSON object {"session": ..., "window": ...}: a SessionSummary as in
// session.json, and a WindowRecord, which has the owners. Both list the processes in the same
// order; a process's samples are those with its labels, which no other process of the file has.
//
// A field "PW" of the gzip header has what the index of the history needs, so that a start of the
// daemon need not read whole files: the times and the size of the file, what each user's stacks
// take of it, and the names of an hour's windows. Any thread.

#pragma once

#include <chrono>
#include <cstdint>
#include <limits>
#include <string>
#include <string_view>
#include <vector>

#include "daemon/history/files.h"
#include "formats/api/session_summary.h"
#include "formats/base/result.h"
#include "formats/profile/pprof_profile.h"
#include "formats/profile/pprof_tables.h"

namespace profd {

inline constexpr std::string_view kWindowFileEnd = ".pb.gz";

// Far above the size of any window or hour.
inline constexpr std::uint64_t kMaxWindowFileBytes = std::uint64_t{64} << 20;
inline constexpr std::uint64_t kMaxUnpackedWindowBytes = std::uint64_t{128} << 20;

// What the stacks and names of an unprivileged user take.
struct UserBytes {
  // The users that have no entry of their own (user_shares.h), together.
  static constexpr std::uint32_t kOthers = std::numeric_limits<std::uint32_t>::max();

  std::uint32_t uid = kOthers;
  std::uint64_t bytes = 0;

  friend bool operator==(const UserBytes&, const UserBytes&) = default;
};

// What the header of a file states besides its times and its size.
struct WindowParts {
  std::vector<UserBytes> users{};
  std::vector<std::string> windows{};  // an hour: of which windows it has the samples

  friend bool operator==(const WindowParts&, const WindowParts&) = default;
};

// The names of more windows than these do not fit into the header.
inline constexpr std::size_t kMaxWindowsOfHour = 3000;

// What the header of a file states.
struct WindowHead {
  std::chrono::system_clock::time_point start;
  std::chrono::system_clock::time_point end;
  std::uint64_t file_bytes = 0;
  WindowParts parts{};  // with the part of the packed file as the bytes of a user

  friend bool operator==(const WindowHead&, const WindowHead&) = default;
};

// The bytes of a file. The profile's own data is replaced. `parts` has the bytes of users before
// they are packed.
[[nodiscard]] std::string encode_window(PprofProfile profile, const SessionSummary& summary,
                                        const WindowRecord& record, WindowParts parts = {});

// The same without a copy of the profile.
[[nodiscard]] std::string encode_window_of(PprofProfile& profile, const SessionSummary& summary,
                                           const WindowRecord& record, WindowParts parts);

// Makes the file durable and visible as a whole, or not at all. kBusy: it exists. After a failure
// of a call, `error_number` has its errno.
[[nodiscard]] Result<void> write_window(const std::string& directory, const std::string& name,
                                        std::string_view bytes, int* error_number = nullptr);

// Reads the first bytes of a file. kNotFound: there is none; kMalformed: it is not a window's, or
// it is cut.
[[nodiscard]] Result<WindowHead> read_window_head(const std::string& directory,
                                                  const std::string& name);

// The same for a whole file in memory.
[[nodiscard]] Result<WindowHead> decode_window_head(std::string_view bytes);

// The whole file as it is. Fails as WindowFile::open() does where there is none.
[[nodiscard]] Result<std::string> read_window_bytes(const std::string& directory,
                                                    const std::string& name);

class WindowFile {
 public:
  // Reads and unpacks a file. kNotFound: there is none of that name; kMalformed otherwise.
  static Result<WindowFile> open(const std::string& directory, const std::string& name);

  // The same for a file in memory, such as that of an answer to a caller.
  static Result<WindowFile> decode(std::string_view bytes,
                                   std::uint64_t max_unpacked_bytes = kMaxUnpackedWindowBytes);

  [[nodiscard]] const SessionSummary& summary() const { return summary_; }
  [[nodiscard]] const WindowRecord& record() const { return record_; }

  // Borrows from *this, which must not be moved meanwhile.
  [[nodiscard]] Result<PprofTables> tables() const;

 private:
  WindowFile() = default;

  std::string protobuf_;
  SessionSummary summary_;
  WindowRecord record_;
};

}  // namespace profd
