// The places where the debug file of a mapped file may lie: the host's directory of debug files,
// the cache of downloaded ones, and the root of the process that has mapped the file.
//
// Trust: a debug file counts for a file only if it belongs to the owner of that file, or to root
// and everybody may read it, or lies in the cache, which only root and the group profd can write.
// Where others than root and the owner of the mapped file see the names, everybody must be able to
// read the debug file, and to reach it: each directory on its way may be searched by others. Else
// it is private: one of the owner names code for the owner and root, and one of root for root only.
// Where users make the mounts, a file of root does not count: a bind mount gives it any path.
// Whether its content belongs to the file is not checked here. A process chooses its root, so owner
// and mode are what protects the files of others, and not the place. No symbolic link is followed
// there: it could lead to a file in a directory that its maker may not enter.

#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <tuple>
#include <vector>

#include "collectors/files/debug_files.h"
#include "formats/base/unique_fd.h"

namespace profd {

// Where `profctl debuginfo fetch` puts debug files, as .build-id/xx/yyyy.debug.
inline constexpr const char* kDebugCache = "/var/cache/profd/debug";

// Who sees the names of a file: root always, and nobody else, or the owner of the file, or others.
enum class NameAudience : std::uint8_t { kRoot, kOwner, kOthers };

struct DebugFileQuery {
  std::string build_id;     // raw bytes; empty: none
  std::string debug_link;   // one component of a path; empty: none
  std::string path;         // of the mapped file, in the root of its process
  std::uint32_t owner = 0;  // uid of the mapped file
  NameAudience audience = NameAudience::kRoot;
};

enum class DebugFilePlace : std::uint8_t { kHost, kCache, kProcess, kLink };
inline constexpr std::array<std::string_view, 4> kDebugFilePlaceTexts{"host", "cache", "process",
                                                                      "link"};

enum class DebugFileRefusal : std::uint8_t {
  kNotRegular,
  kForeignOwner,   // neither root's nor that of the owner of the file
  kOnFuse,         // the server of the file system may never answer; or on an overlay of users
  kTooLarge,       // 4 GiB, or 128 MiB where a checksum is needed
  kLate,           // the file system took too long
  kOtherBuildId,   // it is the debug file of another build
  kOtherChecksum,  // not the file that .gnu_debuglink means
  kMalformed,      // not an ELF file
  kOverBudget,     // the time for the owner's files or that of the parser was spent
  kNotReadable,    // not everybody who sees the names may read or reach it
  kSymbolicLink,   // the path has one
  kUserMount,      // root's, but an unprivileged user chose its path by a mount
};
inline constexpr std::array<std::string_view, 12> kDebugFileRefusalTexts{
    "not_regular", "foreign_owner",  "on_fuse",        "too_large",
    "late",        "other_build_id", "other_checksum", "malformed",
    "over_budget", "not_readable",   "symbolic_link",  "user_mount"};

[[nodiscard]] constexpr std::string_view text_of(DebugFilePlace place) {
  return kDebugFilePlaceTexts.at(static_cast<std::size_t>(place));
}
[[nodiscard]] constexpr std::string_view text_of(DebugFileRefusal refusal) {
  return kDebugFileRefusalTexts.at(static_cast<std::size_t>(refusal));
}

// A file at one of the places.
struct DebugFileAt {
  DebugFilePlace place = DebugFilePlace::kHost;
  UniqueFd fd{};                              // invalid where it is refused
  std::optional<DebugFileRefusal> refusal{};  // none where `fd` is valid
  bool is_private = false;                    // not everybody may read and reach it
};

// By build id, below the host's directory. Only root's files that everybody may read count.
[[nodiscard]] std::optional<DebugFileAt> open_in_host(const DebugFileQuery& query,
                                                      const std::string& root = kDebugRoot);

// By build id, in the cache. A cache that others than its owner and its group can write is ignored,
// and so is one whose owner is not root.
[[nodiscard]] std::optional<DebugFileAt> open_in_cache(const DebugFileQuery& query,
                                                       const std::string& cache = kDebugCache);

// By build id and then by link, below the root of the process `tgid`; 0: that of this process.
// Nothing on FUSE is opened, but to look a path up may hang in a file system: call on a thread that
// may be late (bounded_runner.h).
[[nodiscard]] std::vector<DebugFileAt> open_in_root_of(std::uint32_t tgid,
                                                       const DebugFileQuery& query);

// The same below an open directory; `tgid` is a process that sees its mounts.
[[nodiscard]] std::vector<DebugFileAt> open_in_root(int root, std::uint32_t tgid,
                                                    const DebugFileQuery& query);

// Which files a process sees: device and inode of its mount namespace, and its root directory
// there. Empty where it has ended, and for tgid 0.
using RootId = std::tuple<std::uint64_t, std::uint64_t, std::string>;
[[nodiscard]] RootId root_id_of(std::uint32_t tgid);

// Whether the process is known to live in another mount namespace than this one, where the path of
// a file means another place. False for a process that has ended.
[[nodiscard]] bool has_other_mounts(std::uint32_t tgid);

}  // namespace profd
