#include "daemon/samples/stack_table.h"

#include <algorithm>
#include <array>
#include <exception>
#include <limits>

#include "daemon/samples/hash_seed.h"

namespace profd {
namespace {

// Of one entry of the index, with its share of the free slots.
constexpr std::uint64_t kIndexBytes = 24;

// Of the times of one stack: all of it, and that of its longest block.
constexpr std::uint64_t kTimeBytes = 4 * sizeof(std::uint64_t);

// An odd number with bits all over, so that one stack in many threads has many hashes.
constexpr std::uint64_t kThreadFactor = 0x9e3779b97f4a7c15;

std::uint64_t bytes_of(const SampleView& sample) {
  return 2 * (sample.words.size_bytes() + sizeof(StackTable::Stack) + kIndexBytes);
}

StackTable::Stack shape_of(const SampleView& sample) {
  return {.kernel_frames = static_cast<std::uint16_t>(sample.kernel_frames.size()),
          .user_frames = static_cast<std::uint16_t>(sample.user_frames.size()),
          .mapping_count = static_cast<std::uint8_t>(sample.mapping_ids.size()),
          .stack_class = class_of(sample.context),
          .user_end = static_cast<std::uint8_t>(sample.user_end),
          .state = static_cast<std::uint8_t>(sample.block.state),
          .is_ongoing = sample.block.is_ongoing};
}

// By profd_user_end. "frame_pointer_zero" is for stacks that end at a zero frame pointer but not at
// their root: in a thread of code without unwind rows, or where code without frame pointers left a
// 0 in the register. No sample that is counted has "late": deferred unwinding replaces it.
constexpr std::array<std::string_view, PROFD_END_COUNT> kReasons = {
    "no_user_stack",
    "frame_pointer_zero",
    "no_frame_pointer",
    "pc_unmapped",
    "pc_not_executable",
    "stack_unreadable",
    "depth_limit",
    "mapping_race",
    "entry",
    "no_row",
    "no_table",
    "cfa_not_above",
    "register_lost",
    "late",
    "table_late",
    "window",
    "mapping_changes",
    "over_share",
    "not_taken",
    "before_start",
};

}  // namespace

StackClass class_of(profd_context context) {
  switch (context) {
    case PROFD_CONTEXT_USER:
    case PROFD_CONTEXT_SYSCALL:
    case PROFD_CONTEXT_TRAP:
      return StackClass::kUser;
    case PROFD_CONTEXT_COMPAT:
      return StackClass::kCompat;
    default:
      return StackClass::kKernelOnly;
  }
}

std::string_view incomplete_reason(StackClass stack_class, unsigned user_end) {
  if (stack_class == StackClass::kCompat) return "32_bit";
  return user_end < kReasons.size() ? kReasons[user_end] : "unknown";
}

// A signal handler returns to the restorer, an address that the kernel has put on the stack. The
// byte before it is not a call.
PcKind kind_of_frame(std::span<const std::uint64_t> words, std::size_t index) {
  if (InterpretedFrame::is(words[index])) return PcKind::kExact;
  const UserFrame frame = UserFrame::from_word(words[index]);
  const bool is_interrupted =
      frame.how == PROFD_FRAME_INTERRUPTED || frame.how == PROFD_FRAME_SIGNAL;
  const auto callers = words.subspan(index + 1);
  const auto caller = std::ranges::find_if_not(callers, InterpretedFrame::is);
  const bool is_restorer =
      caller != callers.end() && UserFrame::from_word(*caller).how == PROFD_FRAME_SIGNAL;
  return is_interrupted || is_restorer ? PcKind::kExact : PcKind::kReturnAddress;
}

std::uint64_t code_address(const UserFrame& frame, PcKind kind) {
  return kind == PcKind::kExact ? frame.address : frame.address - 1;
}

std::uint64_t StackTable::hash_of(const SampleView& sample) noexcept {
  const Stack shape = shape_of(sample);
  SeededHash hash(daemon_hash_seed());
  hash.add(std::uint64_t{shape.kernel_frames} | std::uint64_t{shape.user_frames} << 16 |
           std::uint64_t{shape.mapping_count} << 32 |
           static_cast<std::uint64_t>(shape.stack_class) << 40 |
           std::uint64_t{shape.user_end} << 48 | std::uint64_t{shape.state} << 56 |
           std::uint64_t{shape.is_ongoing} << 63);
  hash.add(sample.words);
  return hash.value();
}

StackTable::Added StackTable::add(const SampleView& sample, std::uint64_t hash,
                                  std::uint64_t room_bytes, std::uint32_t thread) noexcept {
  hash += thread * kThreadFactor;
  const std::size_t stacks_before = stacks_.size();
  const std::size_t times_before = times_.size();
  Stack* stack = find(sample, hash, thread);
  const bool is_new = stack == nullptr;
  std::uint64_t bytes = bytes_of_first_time(sample);
  if (is_new) {
    const bool has_times = sample.block.ns != 0 || !times_.empty();
    bytes += bytes_of(sample) + (has_times ? kTimeBytes : 0);
  }
  if (bytes > room_bytes) return Added::kNoRoom;
  if (is_new && stacks_before >= std::numeric_limits<std::uint32_t>::max() - 1) {
    return Added::kNoRoom;
  }
  try {
    begin_times(sample);
    if (is_new) append(sample, hash, thread);
  } catch (const std::exception&) {  // no memory
    stacks_.resize(stacks_before);   // its words stay, unused
    times_.resize(times_before);
    return Added::kNoRoom;
  }
  bytes_ += bytes;
  count(is_new ? stacks_.back() : *stack, sample);
  return is_new ? Added::kNew : Added::kKnown;
}

// Null: there is none yet.
StackTable::Stack* StackTable::find(const SampleView& sample, std::uint64_t hash,
                                    std::uint32_t thread) {
  const auto found = first_of_hash_.find(hash);
  std::uint32_t next = found == first_of_hash_.end() ? 0 : found->second;
  for (; next != 0; next = stacks_[next - 1].next_of_hash) {
    if (Stack& stack = stacks_[next - 1]; stack.thread == thread && equal(stack, sample)) {
      return &stack;
    }
  }
  return nullptr;
}

// For the stacks that are there, where the sample is the first one with a time.
std::uint64_t StackTable::bytes_of_first_time(const SampleView& sample) const {
  return sample.block.ns != 0 && times_.empty() ? stacks_.size() * kTimeBytes : 0;
}

void StackTable::begin_times(const SampleView& sample) {
  if (sample.block.ns != 0 && times_.empty()) times_.resize(stacks_.size());
}

void StackTable::count(Stack& stack, const SampleView& sample) noexcept {
  last_counted_ = static_cast<std::uint32_t>(&stack - stacks_.data());
  stack.count += sample.count;
  if (times_.empty()) return;
  Times& times = times_[last_counted_];
  times.ns += sample.block.ns;
  times.longest_ns = std::max(times.longest_ns, sample.block.own_ns);
}

// The index is needed to add only.
StackTable StackTable::copy_to_read() const {
  StackTable copy;
  copy.stacks_ = stacks_;
  copy.times_ = times_;
  copy.words_ = words_;
  copy.bytes_ = bytes_;
  copy.last_counted_ = last_counted_;
  return copy;
}

bool StackTable::equal(const Stack& stack, const SampleView& sample) const {
  const Stack shape = shape_of(sample);
  return stack.kernel_frames == shape.kernel_frames && stack.user_frames == shape.user_frames &&
         stack.mapping_count == shape.mapping_count && stack.stack_class == shape.stack_class &&
         stack.user_end == shape.user_end && stack.state == shape.state &&
         stack.is_ongoing == shape.is_ongoing &&
         std::ranges::equal(sample.words, words_.at(stack.words, 0, sample.words.size()));
}

// Without its samples. The index is updated last, so that it never refers to a stack whose
// insertion failed.
void StackTable::append(const SampleView& sample, std::uint64_t hash, std::uint32_t thread) {
  Stack stack = shape_of(sample);
  stack.thread = thread;
  stack.words = words_.add(sample.words);
  stacks_.push_back(stack);
  if (sample.block.ns != 0 || !times_.empty()) times_.emplace_back();
  std::uint32_t& first = first_of_hash_[hash];
  stacks_.back().next_of_hash = first;
  first = static_cast<std::uint32_t>(stacks_.size());
}

StackTable::Times StackTable::times_of(const Stack& stack) const {
  return times_.empty() ? Times() : times_[static_cast<std::size_t>(&stack - stacks_.data())];
}

std::span<const std::uint64_t> StackTable::kernel_frames(const Stack& stack) const {
  return words_.at(stack.words, 0, stack.kernel_frames);
}

std::span<const std::uint64_t> StackTable::user_frames(const Stack& stack) const {
  return words_.at(stack.words, stack.kernel_frames, stack.user_frames);
}

std::span<const std::uint64_t> StackTable::mapping_ids(const Stack& stack) const {
  const std::size_t frames = std::size_t{stack.kernel_frames} + stack.user_frames;
  return words_.at(stack.words, frames, stack.mapping_count);
}

}  // namespace profd
