// Puts interpreted frames among the native frames of a stack: those of a segment in front of the
// native frame of the loop that runs them, so that the order is leaf first: native callees, the
// segment's frames from its leaf to its entry, the loop, and what called it.
//
// Pure functions but for Codes. Anchors of a stack that is completed in user space are met there:
// AnchorWalk does with its steps what the BPF program does with its own.

#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <span>
#include <vector>

#include "collectors/bpf/sample.h"
#include "collectors/interpreters/pending_stacks.h"

namespace profd {

// Notes, in the boundaries of a stack, the native frames that user space steps over.
class AnchorWalk {
 public:
  // Goes on where the BPF program ended. `stack` must outlive *this.
  explicit AnchorWalk(InterpretedStack& stack);

  // A step from the native frame with this index in the sample's user frames: sp, and the CFA.
  // Notes the frame where the next anchor lies in it, and skips anchors below the CFA. Does nothing
  // on a stack above all anchors: that of a signal, from which a later step leads back.
  void step(std::size_t native_frame, std::uint64_t sp, std::uint64_t cfa);

  // The same for interpreters without anchors: this native frame is the loop.
  void meet_loop(std::size_t native_frame);

  // Whether the next boundary has no anchor: then the caller looks whether a frame is the loop.
  [[nodiscard]] bool goes_by_loop() const;

 private:
  [[nodiscard]] profd_interpreted_entry* next();

  InterpretedStack& stack_;
  std::size_t next_ = 0;  // entry
  std::uint64_t last_anchor_ = 0;
};

struct WeaveCounts {
  std::uint64_t stacks = 0;
  std::uint64_t frames = 0;
  // Segments with frames whose anchor no native frame met: the native stack is not complete, or
  // the segment is not on it. Their frames are behind those of the last one that was met.
  std::uint64_t unanchored = 0;
  // Native frames of the loop without a segment: of greenlets that wait, or of a chain that ended
  // early. They keep their native name.
  std::uint64_t loops_without_segment = 0;
  std::uint64_t without_number = 0;  // frames whose process or user has no room for more code
};

// The number of a code object (codes.h).
using NumberOfCode = std::function<std::uint32_t(std::uint64_t id)>;
// Whether a native frame is the loop of an interpreter that is known.
using IsLoop = std::function<bool(std::uint64_t word)>;

struct NativeUserFrames {
  std::span<const std::uint64_t> words;
  bool is_complete = false;  // they reach the entry of the thread
};

// Fills `words` with the woven user frames. Where the interpreter has no anchors and the stack is
// complete, its loops are paired from the outermost one, unless there are more than segments; else
// as the boundaries say. The loop of a segment in which the chain ended, before its boundary, is
// the next one. `words` keeps its memory from call to call.
void weave(const NativeUserFrames& native, const InterpretedStack& stack,
           const NumberOfCode& number_of, const IsLoop& is_loop, std::vector<std::uint64_t>& words,
           WeaveCounts& counts);

}  // namespace profd
