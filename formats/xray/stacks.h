// Makes the call stacks of a process, with exclusive times and numbers of calls, from XRay's
// records.
//
// Buffers are added one at a time, those of a thread in the order of time; threads may alternate. A
// thread's stack continues from buffer to buffer. A gap ends it: open calls end at the time of the
// last record, and the following calls begin a new segment with an empty stack.
//
//     entry      pushes the function on the stack
//     exit       ends the nearest open call of the function and the calls above it, which an
//                exception, a longjmp or a tail jump without a record has left
//     exit of a function that is not on the stack: the function was entered before the records
//                began, so all calls since then were made by it. They become its callees, and the
//                function a late root. Calls that are still open were unwound
//     tail exit  is an exit: the next function is called by the caller's caller
//
// Time between two records of a thread counts for the innermost open call. Calls that the runtime's
// duration threshold erased have no record: they are missing, and their time counts for the caller.
//
// Memory grows with the distinct stacks and the threads, up to limits. A call over a limit is
// counted, and its time counts for its caller. No input is an error. No thread affinity.

#pragma once

#include <cstddef>
#include <cstdint>
#include <map>
#include <memory>
#include <string_view>

#include "formats/xray/call_tree.h"
#include "formats/xray/fdr_reader.h"
#include "formats/xray/report.h"

namespace profd::xray {

struct StacksOptions {
  Format format;
  std::uint64_t seed = 0;                        // random if another user wrote the records
  Listener* listener = nullptr;                  // borrowed
  std::size_t max_nodes = std::size_t{1} << 20;  // 32 bytes each, and 8 for the index
  std::size_t max_threads = std::size_t{1} << 16;
  std::size_t max_depth = std::size_t{1} << 14;
  std::size_t max_open = std::size_t{1} << 22;  // open calls of all threads, 8 bytes each
};

// The end of a buffer.
enum class Tail : std::uint8_t {
  kWhole,
  kCut,        // bytes are missing
  kByRuntime,  // written by XRay's runtime, which cuts buffers with typed events
};

// Everything that was measured up to a moment.
struct Measured {
  CallTree tree;
  Report report;
};

struct StacksShared;
class ThreadStack;

class Stacks {
 public:
  explicit Stacks(const StacksOptions& options);
  Stacks(Stacks&&) noexcept;
  Stacks& operator=(Stacks&&) noexcept;
  ~Stacks();

  // Adds records of a thread, without BUFFER_EXTENTS. A record that the end cuts is not decoded and
  // must be at the start of the next chunk. After kMalformed, the next records follow a gap().
  Decoded append(ThreadId thread, std::string_view records);

  // Adds a whole buffer and counts the bytes that were not decoded. Malformed bytes cause a gap.
  void add(ThreadId thread, std::string_view buffer);

  // To be called before and after the append()s of a buffer. `bytes_left` were not decoded.
  void begin_buffer(ThreadId thread, const Format& format);
  void end_buffer(ThreadId thread, const Decoded& last, std::uint64_t bytes_left, Tail tail);

  // Records are missing here; `lost` is their number if the writer counted them.
  void gap(ThreadId thread, std::uint64_t lost);

  // The thread has ended: frees its memory.
  void end_thread(ThreadId thread);

  // The calls so far. Open calls count up to the last record.
  [[nodiscard]] Measured snapshot() const;

  // Ends all open calls, returns everything, and leaves *this empty.
  [[nodiscard]] Measured finish();

  // Number of nodes in the trees of all threads.
  [[nodiscard]] std::size_t nodes() const;

 private:
  [[nodiscard]] ThreadStack* find_or_add(ThreadId id);

  std::unique_ptr<StacksShared> shared_;  // the threads point to it
  std::map<ThreadId, std::unique_ptr<ThreadStack>> threads_;
};

}  // namespace profd::xray
