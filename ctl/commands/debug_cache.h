// The directory of downloaded debug files, DIR/.build-id/xx/yyyy.debug, which the daemon reads by
// build id. Root and the group profd can write it. systemd-tmpfiles removes what was not used for a
// month (systemd/profd.tmpfiles).

#pragma once

#include <cstddef>
#include <cstdint>
#include <string>

#include "formats/base/result.h"
#include "formats/base/unique_fd.h"

namespace profd {

inline constexpr const char* kDebugCacheDirectory = "/var/cache/profd/debug";

class DebugCache {
 public:
  // kPermissionDenied where the caller may not write there.
  static Result<DebugCache> open(const std::string& directory);

  // `build_id` is is_build_id().
  [[nodiscard]] bool has(const std::string& build_id) const;

  // Copies the file of `fd`, and renames the copy when all of it is on the disk. Returns its size.
  // kMalformed: not an ELF file, or one with another build id; kTooLarge: it has more than
  // `max_bytes`.
  Result<std::uint64_t> store(const std::string& build_id, int fd, std::uint64_t max_bytes);

  // Removes the files that were not read or written for the longest time, down to `max_bytes` on
  // the disk, but not that of the build id `kept`. Returns the number of removed files.
  [[nodiscard]] std::size_t remove_oldest(std::uint64_t max_bytes, const std::string& kept) const;

 private:
  Result<void> copy(int from, int to, std::uint64_t bytes) const;
  // The directory of the first two digits, made where it is missing.
  [[nodiscard]] Result<UniqueFd> open_place(const std::string& build_id) const;

  std::string path_;
  UniqueFd directory_;
};

}  // namespace profd
