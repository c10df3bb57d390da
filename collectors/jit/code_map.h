// What is known of one address space's JIT code, and the file that tells it. Of the io thread.

#pragma once

#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <vector>

#include "collectors/bpf/sample.h"
#include "collectors/jit/code_rows.h"
#include "collectors/jit/follower.h"
#include "formats/jit/code_index.h"

namespace profd {

// A file to read code bytes and lines from, with Parser::read_jit_code(): a value for the worker.
struct JitSourceFile {
  std::shared_ptr<const JitFile> file;  // never null
  JitDumpState state;                   // as far as it is read
};

// A source under the number that code has (JitCode::source). A number is another file's only when
// nothing that the file told is known any more.
struct JitNumberedSource {
  std::uint16_t number = 0;
  JitSourceFile source;
};

// The code that one process made, or that several share.
struct JitCodeMap {
  std::uint32_t number = 0;
  std::uint32_t owner = 0;  // uid
  std::size_t bytes = 0;    // of memory, as last counted
  // Of a jitdump, whose times are the runtime's: of its last record. A map's lines have the times
  // of their reading.
  std::uint64_t told_until_ns = 0;
  bool has_times = true;
  JitCodeIndex index;
  JitCodeRows rows;  // of the code as it stands now
  std::vector<std::shared_ptr<const JitNumberedSource>> told_by;
  bool is_everyones = false;  // who gives it up, gives it up for itself
  bool has_process = false;   // or had one
  std::uint64_t loads = 0;    // since it is known
  std::uint64_t ends = 0;     // of memory with code

  JitCodeMap(std::uint32_t number_of_it, const JitFile& file)
      : number(number_of_it),
        owner(file.owner),
        has_times(file.kind == JitFileKind::kJitDump),
        index(limits()) {}

  [[nodiscard]] std::size_t memory_bytes() const {
    return index.memory_bytes() + rows.memory_bytes();
  }

  // Its memory is given up: what lay there ends. Ends take room as code does, so there are no more
  // of them than of that, and a few, since a runtime's records come late.
  static constexpr std::uint64_t kFreeEnds = 256;
  void give_up(const UnmapView& unmap);

  // A real runtime's largest program has 137,490 functions.
  static JitCodeLimits limits() {
    return {.generations = std::size_t{1} << 18, .name_bytes = std::size_t{16} << 20};
  }
};

// As much of a space as a process has: all of its own, of its parent's what was there at the fork.
struct JitLayer {
  static constexpr std::size_t kMaxGivenUp = 64;

  std::shared_ptr<JitCodeMap> space;
  std::uint64_t until_ns = UINT64_MAX;
  // Of its parent's: what it has given up for itself since. Where there is more, all between too.
  std::vector<UnmapView> given_up;

  [[nodiscard]] bool is_own() const { return until_ns == UINT64_MAX; }
  [[nodiscard]] bool has_given_up(std::uint64_t address, std::uint64_t time_ns) const;
};

// What the process whose layers these are gave up.
void give_up(std::vector<JitLayer>& layers, const UnmapView& unmap);

// What lay at an address at a time, the first layer being the process's own. Of a process with a
// jitdump and a map the dump counts, which knows the times. The map fills what the dump lacks:
// where the dump has nothing, and after its last record, since runtimes hold the newest ones back.
// Then a function of the dump has been replaced if the map tells of it and later of another; that
// is seen from the map's reading on, a second late at most.
struct JitAnswer {
  std::uint32_t space = 0;
  JitCode code;
};
[[nodiscard]] std::optional<JitAnswer> find_in_layers(const std::vector<JitLayer>& layers,
                                                      std::uint64_t address, std::uint64_t time_ns);

// A file that tells, and whom.
struct JitSource {
  static constexpr std::size_t kMaxSpaces = 64;
  // LLVM's ORC writes the lines of a whole object before its code.
  static constexpr std::size_t kMaxExpected = 4096;

  std::shared_ptr<JitNumberedSource> told;  // never null
  // By the pid that records name; where the code is shared by all, that one is kEveryone.
  static constexpr std::uint32_t kEveryone = UINT32_MAX;
  std::map<std::uint32_t, std::shared_ptr<JitCodeMap>> spaces;
  // Lines (DEBUG_INFO) whose code is not told of yet, by its address. They name no pid: the first
  // code that is told of there has them, whoever's it is.
  std::map<std::uint64_t, JitFileRange> expected;
  bool is_shared = false;
  bool is_full = false;  // over its share of memory: nothing more is taken up

  // Records of pids that no process with the file has had, as far as is known.
  [[nodiscard]] std::uint64_t foreign_records() const;
  // Of memory, without the spaces.
  [[nodiscard]] std::size_t memory_bytes() const;
  [[nodiscard]] const JitFile& file() const { return *told->source.file; }
  [[nodiscard]] const JitDumpState& state() const { return told->source.state; }
  [[nodiscard]] bool is_dump() const { return file().kind == JitFileKind::kJitDump; }
  [[nodiscard]] std::uint32_t place_of(std::uint32_t pid) const {
    return is_shared ? kEveryone : pid;
  }
};

// Makes a space for a pid that has none.
using MakeJitCodeMap = std::function<std::shared_ptr<JitCodeMap>()>;

// Records that were not taken up.
struct JitLeftOut {
  std::uint64_t foreign = 0;  // of more pids than a file may have
  std::uint64_t lines = 0;    // more than may wait for their code
};

// Takes the records up. `tsc` turns their time stamps where the file has the processor's; without,
// they are of now.
JitLeftOut take_up(JitSource& source, const JitFileGrew& part, const TscConversion* tsc,
                   const MakeJitCodeMap& make_space);

}  // namespace profd
