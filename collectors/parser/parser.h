// The parser: a child process without rights, in which every ELF file, all CFI and every JIT
// runtime's file of other users is parsed, and nowhere else.
//
// It has no file but those that it is sent, can open none, and can't make sockets, processes or
// trace one (seccomp, Landlock, rlimits). A request is an operation and read-only descriptors; the
// answer is an error or a sealed memfd of capped size, which is checked like any other input. One
// that faults, answers nonsense or takes too long is killed, and another one is started; the
// request is an error then. One parser serves one thread.

#pragma once

#include <sys/types.h>

#include <chrono>
#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "collectors/parser/jit_results.h"
#include "formats/base/result.h"
#include "formats/base/unique_fd.h"
#include "formats/elf/elf_file.h"
#include "formats/unwind/cfi_tables.h"

namespace profd {

struct ParserLimits {
  std::uint64_t memory_bytes = std::uint64_t{64} << 20;  // address space beyond the program's own
  std::uint64_t answer_bytes = std::uint64_t{64} << 20;
  std::chrono::milliseconds cpu_time{1000};   // for one request
  std::chrono::milliseconds wall_time{5000};  // a file system may hang
};

class Parser {
 public:
  // Starts the child: the running program again, as `profd --parser` (see run_parser). Call before
  // there is anything to hide.
  static Result<std::unique_ptr<Parser>> start(const ParserLimits& limits = {});
  Parser() = default;
  Parser(const Parser&) = delete;
  Parser& operator=(const Parser&) = delete;
  virtual ~Parser() = default;

  // The functions of formats/ by the same names, run in the child. `fd` is borrowed.
  virtual Result<UnwindSource> read_unwind_source(int fd, const DigestKey& key) = 0;
  virtual Result<std::string> make_unwind_table(int fd, int debug_fd) = 0;
  virtual Result<ElfSummary> read_elf_summary(int fd) = 0;
  virtual Result<std::vector<ElfSymbol>> find_elf_symbols(int fd,
                                                          std::span<const std::uint64_t> addresses,
                                                          SymbolBudget& budget) = 0;

  virtual Result<std::vector<ElfSymbol>> list_elf_functions(int fd) = 0;

  // What stands in the file from the state on, at most 256 KiB of it.
  virtual Result<JitDumpChunk> read_jitdump(int fd, const JitDumpState& state) = 0;
  virtual Result<PerfMapChunk> read_perf_map(int fd, const PerfMapState& state) = 0;

  // The bytes and lines of functions of a jitdump, by what its events said. `state` is the last one
  // of the file.
  virtual Result<JitCodeAnswers> read_jit_code(int fd, const JitDumpState& state,
                                               std::span<const JitCodeQuery> queries) = 0;
  // The unwind rows that records tell; 65,536 rows in all, and none of what is beyond.
  virtual Result<JitUnwindAnswers> read_jit_unwind_rows(
      int fd, const JitDumpState& state, std::span<const JitUnwindQuery> queries) = 0;

  // Of collectors/xray/log_result.h; the result as a sealed memfd for decode_live_result(). No
  // `program` is -1.
  virtual Result<std::int32_t> find_xray_process(int log) = 0;
  virtual Result<UniqueFd> read_xray_log(int log, int program) = 0;

  [[nodiscard]] virtual pid_t child() const = 0;  // for tests and status
  [[nodiscard]] virtual std::uint64_t restarts() const = 0;
};

// Whether the program was started as a parser: main() is then run_parser() and nothing else, in
// every program that starts one, tests too.
inline constexpr const char* kParserArgument = "--parser";
[[nodiscard]] bool is_parser_call(int argc, char** argv);

// The child's main: serves requests on descriptor 3 until it is closed. Gives the rights up first,
// and exits non-zero where it can't.
int run_parser();

}  // namespace profd
