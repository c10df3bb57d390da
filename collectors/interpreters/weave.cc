#include "collectors/interpreters/weave.h"

#include <algorithm>
#include <limits>

namespace profd {
namespace {

constexpr std::size_t kNotOnStack = std::numeric_limits<std::size_t>::max();

using Entries = std::span<const profd_interpreted_entry>;

bool is_boundary(const profd_interpreted_entry& entry) {
  return entry.kind == PROFD_ENTRY_BOUNDARY;
}

// A row of frames that one activation of the loop runs.
struct StackSegment {
  std::size_t first = 0;           // entry
  std::size_t end = 0;             // the entry behind its frames: its boundary, if it has one
  bool has_boundary = false;       // false: of the last one, where the chain ended before it
  std::size_t loop = kNotOnStack;  // the native frame

  [[nodiscard]] bool has_frames() const { return first != end; }
};

std::vector<StackSegment> segments_of(Entries entries) {
  std::vector<StackSegment> segments;
  segments.reserve(1 + static_cast<std::size_t>(std::ranges::count_if(entries, is_boundary)));
  StackSegment next;
  for (std::size_t i = 0; i < entries.size(); ++i) {
    next.end = i;
    if (!is_boundary(entries[i])) continue;
    next.has_boundary = true;
    segments.push_back(next);
    next = {.first = i + 1, .end = i + 1};
  }
  next.end = entries.size();
  if (next.has_frames()) segments.push_back(next);
  return segments;
}

// Of the native frames from `first` on; their number where there is none.
std::size_t find_loop(std::span<const std::uint64_t> native, std::size_t first,
                      const IsLoop& is_loop) {
  while (first < native.size() && !is_loop(native[first])) ++first;
  return first;
}

// Whether both the stack and the chain go to the thread's outermost frame, and have no anchors.
bool may_pair_from_root(const InterpretedStack& stack, bool is_complete,
                        std::span<const StackSegment> segments) {
  const auto has_anchor = [](const profd_interpreted_entry& entry) {
    return is_boundary(entry) && entry.value != 0;
  };
  return is_complete && stack.end == PROFD_CHAIN_COMPLETE && !segments.empty() &&
         segments.back().has_boundary && std::ranges::none_of(stack.entries, has_anchor);
}

// Then loops and segments are equal from the outermost one on. A loop that is the leaf itself may
// have no frame yet, or no more. False, and nothing is paired, where there are further loops: those
// of greenlets that wait are the outer ones.
bool pair_from_root(std::span<const std::uint64_t> native, const IsLoop& is_loop,
                    std::span<StackSegment> segments) {
  std::vector<std::size_t> loops;
  for (std::size_t i = find_loop(native, 0, is_loop); i < native.size();
       i = find_loop(native, i + 1, is_loop)) {
    loops.push_back(i);
  }
  const std::size_t without_frame = !loops.empty() && loops.front() == 0 ? 1 : 0;
  if (loops.size() > segments.size() + without_frame) return false;
  const std::size_t pairs = std::min(loops.size(), segments.size());
  for (std::size_t i = 1; i <= pairs; ++i) {
    segments[segments.size() - i].loop = loops[loops.size() - i];
  }
  return true;
}

// A boundary that is not behind the one before counts as one that was not met: what the programs
// send is checked, but the native frames may be fewer.
void pair_by_boundaries(std::span<const std::uint64_t> native, Entries entries,
                        const IsLoop& is_loop, std::span<StackSegment> segments) {
  std::size_t next_frame = 0;
  bool was_met = true;
  for (StackSegment& segment : segments) {
    if (!segment.has_boundary) {
      // The chain ended within this segment, so its loop is the next one, unless one was missed.
      const std::size_t loop = was_met ? find_loop(native, next_frame, is_loop) : native.size();
      if (loop < native.size()) segment.loop = loop;
      continue;
    }
    const std::size_t met = entries[segment.end].position;  // PROFD_NOT_MET is behind all frames
    was_met = met >= next_frame && met < native.size();
    if (!was_met) continue;
    segment.loop = met;
    next_frame = met + 1;
  }
}

class Weaver {
 public:
  Weaver(const NumberOfCode& number_of, std::vector<std::uint64_t>& words, WeaveCounts& counts)
      : number_of_(number_of), words_(words), counts_(counts) {}

  void add_native(std::span<const std::uint64_t> frames) {
    words_.insert(words_.end(), frames.begin(), frames.end());
  }
  void add_interpreted(Entries entries) {
    for (const profd_interpreted_entry& entry : entries) {
      if (!is_boundary(entry)) add_frame(entry);
    }
  }

 private:
  void add_frame(const profd_interpreted_entry& entry) {
    const std::uint32_t code = number_of_(entry.value);
    if (code == 0) ++counts_.without_number;
    ++counts_.frames;
    words_.push_back(InterpretedFrame::to_word(code, entry.position));
  }

  const NumberOfCode& number_of_;
  std::vector<std::uint64_t>& words_;
  WeaveCounts& counts_;
};

// Frames of a segment that is not on the stack wait for those of the next one that is.
void add_all(std::span<const std::uint64_t> native, Entries entries,
             std::span<const StackSegment> segments, Weaver& weaver) {
  std::size_t next_frame = 0;
  std::size_t next_entry = 0;
  for (const StackSegment& segment : segments) {
    if (segment.loop == kNotOnStack) continue;
    weaver.add_native(native.subspan(next_frame, segment.loop - next_frame));
    weaver.add_interpreted(entries.subspan(next_entry, segment.end - next_entry));
    next_frame = segment.loop;
    next_entry = segment.end;
  }
  weaver.add_native(native.subspan(next_frame));
  weaver.add_interpreted(entries.subspan(next_entry));
}

// Loops in front of the innermost segment are those that just begin or end. They are looked for
// only where the pairing has looked at them anyway.
std::uint64_t loops_without_segment(std::span<const std::uint64_t> native, bool from_root,
                                    std::span<const StackSegment> segments, const IsLoop& is_loop) {
  std::size_t first = 0;
  std::size_t end = native.size();
  for (const StackSegment& segment : segments) {
    if (segment.loop == kNotOnStack) continue;
    if (from_root) {
      end = segment.loop;
      break;
    }
    first = segment.loop + 1;
  }
  return static_cast<std::uint64_t>(
      std::ranges::count_if(native.subspan(first, end - first), std::cref(is_loop)));
}

}  // namespace

AnchorWalk::AnchorWalk(InterpretedStack& stack) : stack_(stack) {
  for (std::size_t i = 0; i < stack_.entries.size(); ++i) {
    const profd_interpreted_entry& entry = stack_.entries[i];
    if (!is_boundary(entry)) continue;
    last_anchor_ = std::max<std::uint64_t>(last_anchor_, entry.value);
    if (entry.position != PROFD_NOT_MET) next_ = i + 1;
  }
}

profd_interpreted_entry* AnchorWalk::next() {
  while (next_ < stack_.entries.size() && !is_boundary(stack_.entries[next_])) ++next_;
  return next_ < stack_.entries.size() ? &stack_.entries[next_] : nullptr;
}

void AnchorWalk::step(std::size_t native_frame, std::uint64_t sp, std::uint64_t cfa) {
  if (cfa <= sp || last_anchor_ < sp) return;
  bool was_met = false;
  for (auto* entry = next(); entry != nullptr && entry->value != 0 && entry->value < cfa;
       entry = next()) {
    const bool is_met = !was_met && entry->value >= sp;
    if (is_met) entry->position = static_cast<std::uint32_t>(native_frame);
    was_met = was_met || is_met;
    ++next_;
  }
}

void AnchorWalk::meet_loop(std::size_t native_frame) {
  profd_interpreted_entry* const entry = next();
  if (entry == nullptr || entry->value != 0) return;
  entry->position = static_cast<std::uint32_t>(native_frame);
  ++next_;
}

bool AnchorWalk::goes_by_loop() const {
  const auto rest = std::span(stack_.entries).subspan(next_);
  const auto boundary = std::ranges::find_if(rest, is_boundary);
  return boundary != rest.end() && boundary->value == 0;
}

void weave(const NativeUserFrames& native, const InterpretedStack& stack,
           const NumberOfCode& number_of, const IsLoop& is_loop, std::vector<std::uint64_t>& words,
           WeaveCounts& counts) {
  words.clear();
  words.reserve(native.words.size() + stack.entries.size());
  const Entries entries(stack.entries);
  std::vector<StackSegment> segments = segments_of(entries);
  const bool from_root = may_pair_from_root(stack, native.is_complete, segments) &&
                         pair_from_root(native.words, is_loop, segments);
  if (!from_root) pair_by_boundaries(native.words, entries, is_loop, segments);
  Weaver weaver(number_of, words, counts);
  add_all(native.words, entries, segments, weaver);
  ++counts.stacks;
  counts.unanchored +=
      static_cast<std::uint64_t>(std::ranges::count_if(segments, [](const StackSegment& segment) {
        return segment.loop == kNotOnStack && segment.has_frames();
      }));
  counts.loops_without_segment += loops_without_segment(native.words, from_root, segments, is_loop);
}

}  // namespace profd
