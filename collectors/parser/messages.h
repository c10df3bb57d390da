// What travels between the daemon and the parser: its operations, their arguments and results.
//
// An operation's descriptors are the files to read, if there are any, and, as the last one, a
// sealed memfd with the encoded argument where there is one.

#pragma once

#include <algorithm>
#include <chrono>
#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "collectors/parser/jit_results.h"
#include "collectors/sandbox/wire.h"
#include "formats/elf/debug_link.h"
#include "formats/elf/elf_file.h"
#include "formats/interpreters/code.h"
#include "formats/interpreters/runtime.h"
#include "formats/symbols/code_names.h"
#include "formats/unwind/cfi_tables.h"

namespace profd {
namespace parser {

inline constexpr std::chrono::milliseconds kUserParserIdleTime{60'000};

enum class Operation : std::uint32_t {
  kReadUnwindSource = 1,  // a file; the request's words are the digest key
  kMakeUnwindTable,       // a file and perhaps its debug file
  kReadElfSummary,        // a file
  kFindElfSymbols,        // a file, SymbolRequest
  kListElfFunctions,      // a file
  kFindXrayProcess,       // an XRay log
  kReadXrayLog,           // an XRay log and perhaps its program
  kReadJitDump,           // a file, JitDumpState
  kReadPerfMap,           // a file, PerfMapState
  kReadJitCode,           // a file, JitCodeRequest
  kReadJitUnwindRows,     // a file, JitUnwindRequest
  kFindCodeNames,         // a file and perhaps its debug file, SymbolRequest
  kMatchDebugFile,        // a file and a debug file
  kFindRuntime,           // a file
  kDecodeCode,            // CodeRequest
};

struct SymbolRequest {
  std::uint64_t table_bytes = 0;  // of SymbolBudget, as the next
  std::int64_t time_ns = 0;
  std::vector<std::uint64_t> addresses;
};

struct FoundSymbols {
  std::uint64_t table_bytes_left = 0;  // of the budget
  std::vector<ElfSymbol> symbols;
};

struct FoundCodeNames {
  std::uint64_t table_bytes_left = 0;  // of the budget
  std::vector<AddressNames> addresses;
};

struct MatchedDebugFile {
  DebugFileMatch match = DebugFileMatch::kMatches;
};

struct JitCodeRequest {
  JitDumpState state;
  std::vector<JitCodeQuery> queries;
};

struct JitUnwindRequest {
  JitDumpState state;
  std::vector<JitUnwindQuery> queries;
};

// Of code objects of one process. Their texts are the process's bytes.
struct CodeRequest {
  std::vector<RawCode> codes;
};
// Of one request, in all; one code object has some 10 KiB at most.
inline constexpr std::size_t kMaxCodesOfRequest = 1024;
inline constexpr std::size_t kMaxCodeTextBytes = std::size_t{4} << 20;
// Code objects beyond that have no lines in the answer.
inline constexpr std::size_t kMaxLinesOfRequest = std::size_t{1} << 20;

inline constexpr std::size_t kMaxSegments = 1024;
inline constexpr std::size_t kMaxStringBytes = 4096;

void members(auto& wire, sandbox::Is<CodeRequest> auto& request) { wire(request.codes); }

// Readers of the list rely on symbols that are sorted, each address once.
[[nodiscard]] inline bool is_valid(const FoundSymbols& found) {
  return std::ranges::adjacent_find(found.symbols, std::ranges::greater_equal(),
                                    &ElfSymbol::address) == found.symbols.end();
}

[[nodiscard]] inline bool is_valid(const MatchedDebugFile& found) {
  return found.match <= DebugFileMatch::kTooLarge;
}

// Decodes a struct whose views point into its `text`.
template <class T>
[[nodiscard]] Result<T> decode_with_text(std::string bytes) {
  auto text = std::make_unique<const std::string>(std::move(bytes));
  auto value = sandbox::decode<T>(*text);
  if (value) value->text = std::move(text);
  return value;
}

}  // namespace parser

[[nodiscard]] inline bool is_valid(const UnwindSource& source) {
  return source.build_id.size() <= parser::kMaxStringBytes &&
         source.debug_link.size() <= parser::kMaxStringBytes;
}

[[nodiscard]] inline bool is_valid(const ElfSummary& summary) {
  return summary.build_id.size() <= parser::kMaxStringBytes &&
         summary.segments.size() <= parser::kMaxSegments &&
         summary.debug_link.size() <= kMaxDebugLinkBytes &&
         summary.debug_link.find('/') == std::string::npos;
}

[[nodiscard]] inline bool is_valid(const ElfSymbol& symbol) {
  return symbol.name.size() <= parser::kMaxStringBytes;
}

[[nodiscard]] inline bool is_valid(const JitDumpEvent& event) {
  return event.kind <= JitDumpEventKind::kClose;
}

// A line table is made from lines that are sorted, each offset once.
[[nodiscard]] inline bool is_valid(const JitCodeAnswer& answer) {
  return answer.lines.size() <= jitdump::kMaxLinesOfFunction &&
         std::ranges::adjacent_find(answer.lines, std::ranges::greater_equal(),
                                    &JitLine::code_offset) == answer.lines.end();
}

void members(auto& wire, sandbox::Is<UnwindRow> auto& row) {
  auto& rule = row.rule;
  wire(row.offset)(rule.cfa_offset)(rule.cfa_add)(rule.ra_offset)(rule.rbp_offset);
  wire(rule.rbx_offset)(rule.kind)(rule.cfa_register)(rule.ra_saved)(rule.rbp_saved);
  wire(rule.rbx_saved)(rule.cfa_index);
}

[[nodiscard]] inline bool is_valid(const UnwindRow& row) {
  return row.rule.kind < PROFD_RULE_KIND_COUNT;
}

void members(auto& wire, sandbox::Is<FoundRuntime> auto& found) {
  auto& runtime = found.runtime;
  wire(found.verdict)(found.kind)(found.version);
  wire(runtime.bias)(runtime.code_type)(runtime.slot);
  for (auto& part : runtime.loop) wire(part.start)(part.bytes);
  wire(runtime.slot_add)(runtime.slot_form)(runtime.kind)(runtime.layout)(runtime.libc)(
      runtime.prologue);
}

void members(auto& wire, sandbox::Is<RawText> auto& text) { wire(text.bytes)(text.kind); }

void members(auto& wire, sandbox::Is<RawCode> auto& code) {
  wire(code.kind)(code.layout)(code.cut)(code.address)(code.first_line)(code.units);
  wire(code.texts);
}

// JitCodeRows relies on rows that rise within the function.
[[nodiscard]] inline bool is_valid(const JitUnwindRows& function) {
  const auto& rows = function.rows;
  return !rows.empty() && rows.size() <= kMaxJitUnwindRows &&
         function.start <= rows.front().offset && rows.back().offset < function.end &&
         std::ranges::is_sorted(rows, {}, &UnwindRow::offset);
}

}  // namespace profd
