// Scans a process for the files that its JIT runtime may have written: by the marker that runtimes
// map, whatever its name, and by the usual names in the process's root and working directory.
//
// Reads only /proc, and may wait for the process (the lock of its memory) and its file systems:
// call on a thread that may be late (collectors/files/bounded_runner.h). Nothing is parsed but the
// kernel's own text.

#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <string_view>
#include <vector>

#include "collectors/bpf/sample.h"
#include "collectors/jit/open_file.h"

namespace profd {

// Runtimes map 40, 1024 or 4096 bytes as a marker, which is one page.
inline constexpr std::uint64_t kMaxMarkerBytes = 4096;

// What a scan finds out of a process, besides its key.
struct JitProcessFacts {
  std::uint32_t uid = 0;                 // effective
  std::uint32_t real_uid = 0;            // another one in a set-user-ID program
  std::uint32_t parent = 0;              // tgid in profd's PID namespace
  std::uint64_t parent_start_ticks = 0;  // of the process that has that tgid now
  std::uint32_t pid_in_namespace = 0;    // in its own PID namespace, as runtimes write it
  std::string_view runtime;              // Runtime::name; empty: none that is known
};

struct JitScan {
  bool is_gone = true;  // the process has ended, and its pid may be another one's; or not scanned
  JitProcessFacts facts;
  std::vector<std::shared_ptr<const JitFile>> files;  // markers first, each file once
  std::vector<JitRefusal> refusals;
  // Whether it has executable memory that it shares with other processes: one of them may compile
  // code that all run.
  bool has_shared_code = false;
};

[[nodiscard]] JitScan scan_for_jit_files(const ProcessKey& process);

// The start of a process in the unit of /proc/PID/stat.
[[nodiscard]] std::uint64_t start_ticks(const ProcessKey& process);

// The start of a process in real time. A file that was last written before it is not the process's.
[[nodiscard]] std::int64_t start_time_ns(const ProcessKey& process);
[[nodiscard]] bool is_written_since(const JitFile& file, std::int64_t time_ns);

// What the name of a JIT source says: "jit-PID.dump", "jit-PID", "jit-TID-PID-XXXXXX",
// "perf-PID.map". None for other names.
struct NamedJitFile {
  JitFileKind kind = JitFileKind::kJitDump;
  std::uint32_t pid = 0;
};
[[nodiscard]] std::optional<NamedJitFile> jit_file_name(std::string_view name);

// Whether a file may belong to a process, by the pid in its name and by its owner. `sampled_uid` is
// the uid of the process's samples, which counts where the process ended before its scan.
[[nodiscard]] bool may_belong_to(const ProcessKey& process, const JitProcessFacts& facts,
                                 std::uint32_t sampled_uid, std::uint32_t pid, std::uint32_t owner);

}  // namespace profd
