// The functions of a process's frames in JIT code, for each sample at its own time.
//
// Resolved on the io thread from the process's stacks and the times of their samples (jit_log.h),
// once all that the runtime wrote has been read; the result is a value for the worker. Where an
// address meant several functions while it was sampled, one stack becomes several runs.

#pragma once

#include <chrono>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <map>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include <boost/unordered/unordered_flat_map.hpp>

#include "collectors/jit/answers.h"
#include "daemon/samples/jit_log.h"
#include "daemon/samples/process_table.h"
#include "daemon/samples/stack_table.h"

namespace profd {

// A generation of JIT code that a sample hit.
struct SampledJitCode {
  static constexpr std::size_t kNoSource = ~std::size_t{0};

  std::uint64_t address = 0;
  std::uint64_t bytes = 0;
  std::string name;                // as the JIT source has it
  std::size_t source = kNoSource;  // in JitSamples::sources, of the ranges below
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
  std::vector<Run> runs;               // sorted by stack: all samples of every timed stack
  std::vector<std::uint32_t> frames;   // the function, or kNoFunction, of each run's user frames
  std::vector<std::uint64_t> unnamed;  // code addresses without a function; some repeat
  std::uint64_t time_dropped = 0;      // samples that are named by another time than their own
  JitProcessInfo info;

  [[nodiscard]] std::span<const std::uint32_t> frames_of(const Run& run, std::size_t count) const {
    return std::span(frames).subspan(run.first_frame, count);
  }
};

// JitProcesses' functions of these names, for one process.
struct JitLookup {
  std::function<std::optional<JitFunction>(std::uint64_t address, std::uint64_t time_ns)> at;
  std::function<std::optional<JitSourceFile>(const JitCode& code)> source_file_of;
};

// Whether all frames of a stack mean the same at two times. False also where `end` comes before
// that is known.
[[nodiscard]] bool means_the_same(const StackTable& stacks, const StackTable::Stack& stack,
                                  std::uint64_t time_a_ns, std::uint64_t time_b_ns,
                                  const JitLookup& code, std::chrono::steady_clock::time_point end);

// Resolves the timed stacks of one process in turns, so that the io thread can do other work in
// between. A turn may end inside a stack: where the code is hostile, one stack takes seconds.
class JitResolver {
 public:
  using Clock = std::chrono::steady_clock;

  // A turn reads the clock once for so many frames, and looks at so many at least.
  static constexpr std::size_t kFramesOfClock = 8;

  // `log` has the times of the stacks. `stacks` and `image` must outlive *this.
  JitResolver(const StackTable& stacks, JitLog log, const ProcessImage& image, JitLookup code);

  // Looks at so many frames at most, and ends soon after `end`; the next call continues. False when
  // all stacks are done.
  [[nodiscard]] bool advance(std::size_t frames, Clock::time_point end);

  // The result, once advance() returned false.
  [[nodiscard]] JitSamples take();

 private:
  // What is left of a call of advance().
  struct Turn {
    std::size_t left = 0;  // frames
    Clock::time_point end{};
    std::size_t taken = 0;

    // False: the turn is over.
    [[nodiscard]] bool take_frame();
  };

  // These return false or none where the turn is over before they have a result. They keep what
  // they know, and are called again in the next turn.
  [[nodiscard]] bool step();
  [[nodiscard]] bool add_frames();
  [[nodiscard]] std::optional<std::size_t> length_of_run(std::span<const JitLog::Entry> entries);
  [[nodiscard]] std::optional<bool> compare(std::uint64_t time_a_ns, std::uint64_t time_b_ns);

  [[nodiscard]] std::span<const JitLog::Entry> entries_of_stack() const;
  void begin_run(std::uint64_t count, std::uint64_t time_ns);
  [[nodiscard]] std::uint32_t function_of_frame(std::size_t index, bool is_noted);
  [[nodiscard]] bool is_candidate(const StackTable::Stack& stack, const UserFrame& frame) const;
  [[nodiscard]] std::uint32_t function_at(std::uint64_t address, std::uint64_t time_ns);
  void add_function(const JitCode& code);
  [[nodiscard]] std::size_t source_file_of(const JitCode& code);

  const StackTable& stacks_;
  const ProcessImage& image_;
  JitLog log_;
  JitLookup code_;
  std::uint32_t stack_ = 0;    // the current one
  std::uint64_t counted_ = 0;  // samples of it that are in a run
  std::size_t next_ = 0;       // entry of the log
  Turn turn_;
  std::vector<bool> compared_;                // the results for the current run so far, in order
  std::size_t frame_ = 0;                     // the next one of the current comparison
  std::optional<std::uint64_t> run_time_ns_;  // of the last run, while its frames are not all there
  JitSamples samples_;
  boost::unordered_flat_map<std::uint64_t, std::uint32_t> by_generation_;
  std::map<std::uint32_t, std::size_t> sources_;
};

}  // namespace profd
