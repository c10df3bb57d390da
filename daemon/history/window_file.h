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
// A field "PW" of the gzip header has the times and the size of the file, so that a start of the
// daemon need not read whole files. Any thread.

#pragma once

#include <chrono>
#include <cstdint>
#include <string>
#include <string_view>

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

// The times and the size that the header of a file states.
struct WindowHead {
  std::chrono::system_clock::time_point start;
  std::chrono::system_clock::time_point end;
  std::uint64_t file_bytes = 0;

  friend bool operator==(const WindowHead&, const WindowHead&) = default;
};

// The bytes of a file. The profile's own data is replaced.
[[nodiscard]] std::string encode_window(PprofProfile profile, const SessionSummary& summary,
                                        const WindowRecord& record);

// Makes the file durable and visible as a whole, or not at all. kBusy: it exists.
[[nodiscard]] Result<void> write_window(const std::string& directory, const std::string& name,
                                        std::string_view bytes);

// Reads the first bytes of a file. kNotFound: there is none; kMalformed: it is not a window's, or
// it is cut.
[[nodiscard]] Result<WindowHead> read_window_head(const std::string& directory,
                                                  const std::string& name);

// The whole file as it is. Fails as WindowFile::open() does where there is none.
[[nodiscard]] Result<std::string> read_window_bytes(const std::string& directory,
                                                    const std::string& name);

class WindowFile {
 public:
  // Reads and unpacks a file. kNotFound: there is none of that name; kMalformed otherwise.
  static Result<WindowFile> open(const std::string& directory, const std::string& name);

  // The same for a file in memory, such as that of an answer to a caller.
  static Result<WindowFile> decode(std::string_view bytes);

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
