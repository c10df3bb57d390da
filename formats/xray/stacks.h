// Call stacks of a process, with exclusive times and numbers of calls, from XRay's records.
//
// Buffers come one at a time, a thread's in the order of time; threads may alternate. A thread's
// stack goes on from buffer to buffer. A gap ends it: what was open is closed at its last record's
// time, and what comes then is rooted anew.
//
//     entry   pushes the function, under what is on the stack
//     exit    ends the nearest open call of the function, and those above it (an exception, a
//             longjmp, a tail jump that leaves no record)
//     exit of a function that isn't on the stack: it had been entered before the records began, so
//             all calls since then were inside of it: they are put under it (a late root). Calls
//             that are still open had been unwound
//     tail exit is an exit: what follows is called by the caller's caller
//
// Time between two records of a thread belongs to the innermost open call. What the runtime's
// duration threshold erased has no record, so its time is its caller's and its calls are missing.
//
// Memory grows with the distinct stacks and the threads, up to the limits; a call beyond them is
// counted and its time given to its caller. Never fails, whatever the bytes are. No thread
// affinity.

#pragma once

#include <cstddef>
#include <cstdint>
#include <map>
#include <memory>
#include <string_view>

#include "formats/xray/call_tree.h"
#include "formats/xray/fdr_reader.h"
#include "formats/xray/listener.h"
#include "formats/xray/report.h"

namespace profd::xray {

struct StacksOptions {
  Format format;
  std::uint64_t seed = 0;                        // random where the records are another's
  Listener* listener = nullptr;                  // borrowed
  std::size_t max_nodes = std::size_t{1} << 20;  // 32 bytes each, and 8 of its index
  std::size_t max_threads = std::size_t{1} << 16;
  std::size_t max_depth = std::size_t{1} << 14;
  std::size_t max_open = std::size_t{1} << 22;  // calls of all threads together, 8 bytes each
};

// What is known of a buffer's end.
enum class Tail : std::uint8_t {
  kWhole,
  kCut,        // bytes are missing
  kByRuntime,  // as XRay's runtime writes it, which cuts buffers with typed events
};

// All that was measured up to some moment.
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

  // Records of a thread as they come, BUFFER_EXTENTS left out. Returns what it took: the rest, a
  // cut record, comes first in the next piece. After damage only gap() lets the thread go on.
  Decoded append(ThreadId thread, std::string_view records);

  // A whole buffer: append(), and what is left counted. Damage is a gap.
  void add(ThreadId thread, std::string_view buffer);

  // Around the append()s of a buffer that lies in a file: its format, and what of it was not taken.
  void begin_buffer(ThreadId thread, const Format& format);
  void end_buffer(ThreadId thread, const Decoded& last, std::uint64_t bytes_left, Tail tail);

  // Records are missing here: `lost` of them, where the writer counted.
  void gap(ThreadId thread, std::uint64_t lost);

  // The thread has ended: frees what is kept for it.
  void end_thread(ThreadId thread);

  // So far. Calls that are open count as such up to their last record.
  [[nodiscard]] Measured snapshot() const;

  // Closes all that is open, and begins anew with nothing.
  [[nodiscard]] Measured finish();

  // How many stacks' nodes are kept, of all threads.
  [[nodiscard]] std::size_t nodes() const;

 private:
  [[nodiscard]] ThreadStack* find_or_add(ThreadId id);

  std::unique_ptr<StacksShared> shared_;  // its threads point to it
  std::map<ThreadId, std::unique_ptr<ThreadStack>> threads_;
};

}  // namespace profd::xray
