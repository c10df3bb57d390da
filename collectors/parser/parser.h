// The parser: a sandboxed child process in which every ELF file, all CFI and every jitdump, perf
// map and XRay log of other users is parsed, and nowhere else.
//
// The child opens no file; a request is an operation and read-only descriptors. Its result has a
// capped size and is checked like any other input. A child that faults, answers nonsense or takes
// too long is killed and replaced; the request then is an error. One parser serves one thread.
//
// Files of root have a child of their own: what a user's file does to the child that reads it can't
// change the answers about root's. The other one is started for the first file of a user.

#pragma once

#include <sys/types.h>

#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "collectors/parser/jit_results.h"
#include "collectors/sandbox/child.h"
#include "collectors/sandbox/client.h"
#include "formats/base/result.h"
#include "formats/base/unique_fd.h"
#include "formats/elf/debug_link.h"
#include "formats/elf/elf_file.h"
#include "formats/interpreters/code.h"
#include "formats/interpreters/runtime.h"
#include "formats/symbols/code_names.h"
#include "formats/unwind/cfi_tables.h"

namespace profd {

using ParserLimits = sandbox::ChildLimits;

class Parser {
 public:
  // Starts the child for files of root: the running program again as kParserChild, which its main()
  // must know. Call before the process has memory or descriptors that a child must not get. The one
  // for files of others, kUserParserChild, is there only while it is used. `spawn` makes other
  // children in tests.
  static Result<std::unique_ptr<Parser>> start(const ParserLimits& limits = {},
                                               sandbox::Spawn spawn = {});
  Parser() = default;
  Parser(const Parser&) = delete;
  Parser& operator=(const Parser&) = delete;
  virtual ~Parser() = default;

  // The functions of formats/ by the same names, run in the child. `fd` is borrowed.
  virtual Result<UnwindSource> read_unwind_source(int fd, const DigestKey& key) = 0;
  virtual Result<std::string> make_unwind_table(int fd, int debug_fd) = 0;
  virtual Result<ElfSummary> read_elf_summary(int fd) = 0;
  virtual Result<DebugFileMatch> match_debug_file(int fd, int debug_fd) = 0;
  virtual Result<std::vector<ElfSymbol>> find_elf_symbols(int fd,
                                                          std::span<const std::uint64_t> addresses,
                                                          SymbolBudget& budget) = 0;
  virtual Result<std::vector<ElfSymbol>> list_elf_functions(int fd) = 0;
  // One answer for each address, in their order. `debug_fd` is -1 where there is no debug file.
  virtual Result<std::vector<AddressNames>> find_code_names(
      int fd, int debug_fd, std::span<const std::uint64_t> addresses, SymbolBudget& budget) = 0;

  // The interpreter in a file: that of the recognizer that knows it.
  virtual Result<FoundRuntime> find_runtime(int fd) = 0;
  // One answer for each code object, in their order. `of_root`: root owns the process that had
  // them, and the child for files of root decodes them.
  virtual Result<DecodedCodes> decode_code(bool of_root, std::span<const RawCode> codes) = 0;

  // Reads a JIT source on from the state, kJitChunkBytes of it at most.
  virtual Result<JitDumpChunk> read_jitdump(int fd, const JitDumpState& state) = 0;
  virtual Result<PerfMapChunk> read_perf_map(int fd, const PerfMapState& state) = 0;

  // Reads the code bytes and lines of functions of a jitdump. `state` is the latest one of the
  // file.
  virtual Result<JitCodeAnswers> read_jit_code(int fd, const JitDumpState& state,
                                               std::span<const JitCodeQuery> queries) = 0;
  // Reads the unwind rows of functions of a jitdump: kMaxJitUnwindRows in all, none for the
  // functions beyond that.
  virtual Result<JitUnwindAnswers> read_jit_unwind_rows(
      int fd, const JitDumpState& state, std::span<const JitUnwindQuery> queries) = 0;

  // The functions of collectors/xray/log_result.h. The result of read_xray_log() is a sealed memfd
  // for decode_live_result(). `program` is -1 where there is none.
  virtual Result<std::int32_t> find_xray_process(int log) = 0;
  virtual Result<UniqueFd> read_xray_log(int log, int program) = 0;

  [[nodiscard]] virtual pid_t child() const = 0;  // of the latest request; for tests
  [[nodiscard]] virtual std::uint64_t restarts() const = 0;
};

// For sandbox::run_as_child().
extern const sandbox::ChildKind kParserChild;
extern const sandbox::ChildKind kUserParserChild;

}  // namespace profd
