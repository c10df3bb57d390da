// What the frames of one process that lie in code made at run time mean: each sample by its own
// time.
//
// Made on the io thread from a process's stacks and the times of their samples (jit_log.h) once all
// that the runtime wrote has been read; a value then, for the worker. Where an address meant
// several functions while it was sampled, one stack becomes several runs.

#pragma once

#include <cstdint>
#include <functional>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "collectors/jit/jit_processes.h"
#include "daemon/jit_log.h"
#include "daemon/process_table.h"
#include "daemon/stack_table.h"

namespace profd {

// One function at one place from one time on, that a sample hit.
struct SampledJitCode {
  static constexpr std::size_t kNoSource = ~std::size_t{0};

  std::uint64_t address = 0;
  std::uint64_t bytes = 0;
  std::string name;                // as written
  std::size_t source = kNoSource;  // in JitSamples::sources; where the rest lies in that file
  JitFileRange code;
  JitFileRange debug_info;
};

struct JitSamples {
  static constexpr std::uint32_t kNoFunction = 0xffff'ffff;

  // Samples of one stack whose frames all mean the same.
  struct Run {
    std::uint32_t stack = 0;  // in the process's StackTable
    std::uint64_t count = 0;
    std::size_t first_frame = 0;
  };

  std::vector<SampledJitCode> functions;
  std::vector<JitSource> sources;
  std::vector<Run> runs;               // by stack; all samples of every timed stack
  std::vector<std::uint32_t> frames;   // of each run, for each user frame: its function, or none
  std::vector<std::uint64_t> unnamed;  // code addresses of no function, sorted
  std::uint64_t blurred = 0;           // samples whose own times were let go
  JitProcessInfo info;

  [[nodiscard]] std::span<const std::uint32_t> frames_of(const Run& run, std::size_t count) const {
    return std::span(frames).subspan(run.first_frame, count);
  }
};

// What one process's code is asked for; as the verbs of JitProcesses.
struct JitLookup {
  std::function<std::optional<JitFunction>(std::uint64_t address, std::uint64_t time_ns)> at;
  std::function<std::optional<JitSource>(const JitCode& code)> source_of;
};

// Whether all frames of a stack mean the same at two times.
[[nodiscard]] bool means_the_same(const StackTable& stacks, const StackTable::Stack& stack,
                                  std::uint64_t time_a_ns, std::uint64_t time_b_ns,
                                  const JitLookup& code);

// Of the stacks that are timed; `log` has times of theirs.
[[nodiscard]] JitSamples resolve_jit(const StackTable& stacks, JitLog log,
                                     const ProcessImage& image, const JitLookup& code);

}  // namespace profd
