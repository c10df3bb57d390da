// What the frames of one process that lie in code made at run time mean: each sample by its own
// time.
//
// Made on the io thread from a process's stacks and the times of their samples (jit_log.h) once all
// that the runtime wrote has been read; a value then, for the worker. Where an address meant
// several functions while it was sampled, one stack becomes several runs.

#pragma once

#include <cstdint>
#include <functional>
#include <map>
#include <optional>
#include <set>
#include <span>
#include <string>
#include <vector>

#include <boost/unordered/unordered_flat_map.hpp>

#include "collectors/jit/processes.h"
#include "daemon/samples/jit_log.h"
#include "daemon/samples/process_table.h"
#include "daemon/samples/stack_table.h"

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
  std::vector<JitSourceFile> sources;
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
  std::function<std::optional<JitSourceFile>(const JitCode& code)> source_file_of;
};

// Whether all frames of a stack mean the same at two times.
[[nodiscard]] bool means_the_same(const StackTable& stacks, const StackTable::Stack& stack,
                                  std::uint64_t time_a_ns, std::uint64_t time_b_ns,
                                  const JitLookup& code);

// Resolves the timed stacks of one process, run by run, so that whoever has other things to do can
// do them in between.
class JitResolver {
 public:
  // `log` has times of theirs. `stacks` and `image` must outlive *this.
  JitResolver(const StackTable& stacks, JitLog log, const ProcessImage& image, JitLookup code);

  // False: all are done.
  [[nodiscard]] bool advance(std::size_t runs);

  // Once advance() said so.
  [[nodiscard]] JitSamples take();

 private:
  void step();
  void add_run(std::uint64_t count, std::uint64_t time_ns);
  [[nodiscard]] bool is_candidate(const StackTable::Stack& stack, const UserFrame& frame) const;
  [[nodiscard]] std::uint32_t function_at(std::uint64_t address, std::uint64_t time_ns);
  void add_function(const JitCode& code);
  [[nodiscard]] std::size_t source_file_of(const JitCode& code);

  const StackTable& stacks_;
  const ProcessImage& image_;
  JitLog log_;
  JitLookup code_;
  std::uint32_t stack_ = 0;    // that is at hand
  std::uint64_t counted_ = 0;  // of its samples
  std::size_t next_ = 0;       // entry of the log
  JitSamples samples_;
  boost::unordered_flat_map<std::uint64_t, std::uint32_t> by_generation_;
  std::map<std::uint32_t, std::size_t> sources_;
  std::set<std::uint64_t> unnamed_;
};

// All at once.
[[nodiscard]] JitSamples resolve_jit(const StackTable& stacks, JitLog log,
                                     const ProcessImage& image, const JitLookup& code);

}  // namespace profd
