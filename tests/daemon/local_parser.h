// A Parser that is no process of its own, for tests whose files are their own.

#pragma once

#include <unistd.h>

#include <span>
#include <string>
#include <utility>
#include <vector>

#include "collectors/parser/jit_requests.h"
#include "collectors/parser/parser.h"
#include "collectors/sandbox/packets.h"
#include "collectors/xray/log_result.h"
#include "formats/php/code_object.h"
#include "formats/php/recognize.h"
#include "formats/python/code_object.h"
#include "formats/python/recognize.h"
#include "formats/symbols/find_code_names.h"

namespace profd::test {

class LocalParser : public Parser {
 public:
  Result<UnwindSource> read_unwind_source(int fd, const DigestKey& key) override {
    return profd::read_unwind_source(fd, key);
  }
  Result<std::string> make_unwind_table(int fd, int debug_fd) override {
    return profd::make_unwind_table(fd, debug_fd);
  }
  Result<ElfSummary> read_elf_summary(int fd) override { return profd::read_elf_summary(fd); }
  Result<DebugFileMatch> match_debug_file(int fd, int debug_fd) override {
    return profd::match_debug_file(fd, debug_fd);
  }
  Result<std::vector<ElfSymbol>> find_elf_symbols(int fd, std::span<const std::uint64_t> addresses,
                                                  SymbolBudget& budget) override {
    return profd::find_elf_symbols(fd, addresses, budget);
  }
  Result<std::vector<ElfSymbol>> list_elf_functions(int fd) override {
    return profd::list_elf_functions(fd);
  }
  Result<std::vector<AddressNames>> find_code_names(int fd, int debug_fd,
                                                    std::span<const std::uint64_t> addresses,
                                                    SymbolBudget& budget) override {
    return profd::find_code_names(fd, debug_fd, addresses, budget);
  }
  Result<FoundRuntime> find_runtime(int fd) override {
    const auto file = CodeFile::open(fd);
    if (!file) return file.error();
    auto python = recognize_python(*file);
    if (!python || python->verdict != RuntimeVerdict::kNone) return python;
    return recognize_php(*file);
  }
  Result<DecodedCodes> decode_code(bool /*of_root*/, std::span<const RawCode> codes) override {
    DecodedCodes decoded;
    decoded.reserve(codes.size());
    for (const RawCode& code : codes) {
      decoded.push_back(code.kind == PROFD_RUNTIME_PHP ? decode_php_code(code)
                                                       : decode_python_code(code));
    }
    return decoded;
  }
  Result<JitDumpChunk> read_jitdump(int fd, const JitDumpState& state) override {
    return parser::read_jitdump_chunk(fd, state);
  }
  Result<PerfMapChunk> read_perf_map(int fd, const PerfMapState& state) override {
    return parser::read_perf_map_chunk(fd, state);
  }
  Result<JitCodeAnswers> read_jit_code(int fd, const JitDumpState& state,
                                       std::span<const JitCodeQuery> queries) override {
    auto answers =
        parser::read_jit_code(fd, {.state = state, .queries = {queries.begin(), queries.end()}});
    if (!answers) return answers.error();
    return parser::decode_with_text<JitCodeAnswers>(std::move(*answers));
  }
  Result<JitUnwindAnswers> read_jit_unwind_rows(int fd, const JitDumpState& state,
                                                std::span<const JitUnwindQuery> queries) override {
    return parser::read_jit_unwind_rows(
        fd, {.state = state, .queries = {queries.begin(), queries.end()}});
  }
  Result<std::int32_t> find_xray_process(int log) override { return xray::process_of_log(log); }
  Result<UniqueFd> read_xray_log(int log, int program) override {
    const auto result = xray::read_log(log, program);
    if (!result) return result.error();
    return sandbox::make_sealed(xray::encode(*result));
  }
  [[nodiscard]] pid_t child() const override { return ::getpid(); }
  [[nodiscard]] std::uint64_t restarts() const override { return 0; }
};

}  // namespace profd::test
