// What the follower reports to the io thread.

#pragma once

#include <cstdint>
#include <map>
#include <memory>
#include <variant>
#include <vector>

#include "collectors/bpf/sample.h"
#include "collectors/jit/open_file.h"
#include "collectors/jit/scan.h"
#include "collectors/jit/stats.h"
#include "collectors/parser/jit_results.h"

namespace profd {

// A process was scanned. The files of the scan are followed from here on.
struct JitProcessScanned {
  ProcessKey process;
  JitScan scan;
};

// A file appeared whose name has this pid, of any PID namespace.
struct JitFileSeen {
  std::uint32_t pid = 0;
  std::uint32_t owner = 0;  // uid
  JitFileKind kind = JitFileKind::kJitDump;
};

// The next part of a file.
struct JitFileGrew {
  std::shared_ptr<const JitFile> file;
  std::int64_t read_ns = 0;  // CLOCK_MONOTONIC
  std::variant<JitDumpChunk, PerfMapChunk> chunk;
  // The unwind rows of events that have some, by the event's place in JitDumpChunk::read.
  std::map<std::size_t, std::vector<JitUnwindRows>> rows;
};

// The file is not read any further.
struct JitFileEnded {
  JitFileId file;
  JitRefusal reason = JitRefusal::kMalformed;
};

// The files have been read to the ends that they had at JitFollower::read_to_end().
struct JitReadToEnd {
  std::uint64_t ticket = 0;
};

using JitEvent =
    std::variant<JitProcessScanned, JitFileSeen, JitFileGrew, JitFileEnded, JitReadToEnd>;

}  // namespace profd
