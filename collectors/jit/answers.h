// What is known of JIT code: values, also for the worker.

#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <string_view>

#include "collectors/jit/open_file.h"
#include "formats/jit/code.h"
#include "formats/jit/jitdump_reader.h"

namespace profd {

// The meaning of an address at a time.
struct JitFunction {
  // A number of this function as this code: the same for all addresses and times with that meaning,
  // and of no other function.
  std::uint64_t generation = 0;
  JitCode code;  // its name is valid until JitProcesses::poll()
};

// A JIT source to read code bytes and lines from, with Parser::read_jit_code().
struct JitSourceFile {
  std::shared_ptr<const JitFile> file;  // never null
  JitDumpState state;                   // as far as the file is read
  // JitCode::source of its code. Another file gets the number only when none of that code is known
  // any more.
  std::uint16_t number = 0;

  [[nodiscard]] bool is_dump() const { return file->kind == JitFileKind::kJitDump; }
  [[nodiscard]] std::uint32_t owner() const { return file->id.owner; }
};

// The runtime of a process.
struct JitProcessInfo {
  std::string file;  // the process's name for its jitdump or else its perf map; empty: it has none
  JitFileKind kind = JitFileKind::kJitDump;
  std::string_view runtime;     // Runtime::name; empty: no known one
  std::uint64_t functions = 0;  // that are known now
  bool is_gone = false;
};

}  // namespace profd
