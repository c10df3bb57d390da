// Looks for the files that a process's JIT runtime may have written: by the marker that it maps,
// whatever its name, and by the usual names in the process's own root and working directory.
//
// Reads /proc alone, and waits for the process (its memory's lock) and its file systems: call on a
// thread that may be late (bounded_runner.h). Nothing is parsed but the kernel's own text.

#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "collectors/bpf/sample.h"
#include "collectors/jit/open_file.h"

namespace profd {

// What else there is to know of a process than its key.
struct JitProcessFacts {
  std::uint32_t uid = 0;       // effective
  std::uint32_t real_uid = 0;  // who runs it: of a set-user-ID program another
  std::uint32_t parent = 0;    // tgid in profd's PID namespace, and the start of who has it now
  std::uint64_t parent_start_ticks = 0;
  std::uint32_t pid_in_space = 0;  // its pid in its own PID namespace, as runtimes write it
  std::string_view runtime;        // formats/jit/runtimes.h's name of it; empty: none that is known
};

// Executable memory that a process shares with others: code that one compiles, all run. Found
// under a runtime's marker; private memory is not listed.
struct SharedCode {
  std::uint64_t start = 0;
  std::uint64_t end = 0;
};

struct JitScan {
  bool is_gone = true;  // the process, or another one has its pid
  JitProcessFacts facts;
  std::vector<std::shared_ptr<const JitFile>> files;  // markers first; none twice
  std::vector<JitRefusal> refusals;
  std::vector<SharedCode> shared;
};

[[nodiscard]] JitScan look_for_jit_files(const ProcessKey& process);

// The clock of /proc/PID/stat, as which a process's start counts.
[[nodiscard]] std::uint64_t start_ticks(const ProcessKey& process);

// When a process started, in real time; what was last written before is not its own.
[[nodiscard]] std::int64_t start_time_ns(const ProcessKey& process);
// Whether a held file was written since.
[[nodiscard]] bool is_written_since(const JitFile& file, std::int64_t time_ns);

// The pid that a file's name speaks of: "jit-PID.dump", "jit-PID", "jit-TID-PID-XXXXXX",
// "perf-PID.map". None for other names.
struct NamedJitFile {
  JitFileKind kind = JitFileKind::kJitDump;
  std::uint32_t pid = 0;
};
[[nodiscard]] std::optional<NamedJitFile> jit_file_name(std::string_view name);

}  // namespace profd
