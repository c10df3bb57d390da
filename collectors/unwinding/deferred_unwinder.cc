#include "collectors/unwinding/deferred_unwinder.h"

#include <algorithm>
#include <utility>

namespace profd {
namespace {

std::uint64_t frame_word(const UnwindFrame& frame, std::size_t mapping) {
  constexpr std::uint64_t kAddressMask = (std::uint64_t{1} << PROFD_FRAME_ADDRESS_BITS) - 1;
  return (frame.ip & kAddressMask) | std::uint64_t{mapping} << PROFD_FRAME_MAPPING_SHIFT |
         std::uint64_t{frame.how} << PROFD_FRAME_HOW_SHIFT;
}

// The place of a mapping in a stack's list.
std::size_t list_mapping(std::vector<std::uint64_t>& ids, std::uint64_t id) {
  const auto known = std::ranges::find(ids, id);
  if (known != ids.end()) return static_cast<std::size_t>(known - ids.begin());
  if (ids.size() >= PROFD_MAX_STACK_MAPPINGS) return PROFD_NO_MAPPING;
  ids.push_back(id);
  return ids.size() - 1;
}

}  // namespace

DeferredUnwinder::DeferredUnwinder(const UnwindTables& tables, const ProcessMappings& mappings,
                                   Request request, SampleSink& next)
    : tables_(tables), mappings_(mappings), request_(std::move(request)), next_(next) {}

DeferredUnwinder::Stack DeferredUnwinder::copy_of(const DeferredSampleView& deferred) {
  const SampleView& sample = deferred.sample;
  const profd_deferred_stack& registers = *deferred.registers;
  Stack stack;
  stack.sample = sample;
  stack.kernel_frames.assign(sample.kernel_frames.begin(), sample.kernel_frames.end());
  stack.user_frames.assign(sample.user_frames.begin(), sample.user_frames.end());
  stack.mapping_ids.assign(sample.mapping_ids.begin(), sample.mapping_ids.end());
  stack.window.assign(deferred.window.begin(), deferred.window.end());
  stack.window_start = registers.window_start;
  stack.frame = {.ip = registers.ip,
                 .sp = registers.sp,
                 .bp = registers.bp,
                 .bx = registers.bx,
                 .lost = registers.lost,
                 .signal_frames = registers.signal_frames,
                 .how = UserFrame::from_word(sample.user_frames.back()).how};
  std::ranges::copy(registers.registers, stack.frame.registers.begin());
  return stack;
}

void DeferredUnwinder::add(const DeferredSampleView& deferred, Clock::time_point now) {
  Stack stack = copy_of(deferred);
  stack.give_up_at = now + kMaxWait;
  if (walk(stack) == Progress::kEnded) {
    ++done_;
    deliver(stack);
    return;
  }
  const std::size_t bytes = stack.window.size() * sizeof(std::uint64_t);
  if (stacks_.size() >= kMaxStacks || bytes_ + bytes > kMaxBytes) {
    give_up(stack);
    return;
  }
  bytes_ += bytes;
  stacks_.push_back(std::move(stack));
}

void DeferredUnwinder::poll(Clock::time_point now) {
  for (auto stack = stacks_.begin(); stack != stacks_.end();) {
    const bool there = tables_.state(stack->awaited) != UnwindTables::State::kUnknown;
    const bool ended = there && walk(*stack) == Progress::kEnded;
    if (!ended && now < stack->give_up_at) {
      ++stack;
      continue;
    }
    bytes_ -= stack->window.size() * sizeof(std::uint64_t);
    if (ended) {
      ++done_;
      deliver(*stack);
    } else {
      give_up(*stack);
    }
    stack = stacks_.erase(stack);
  }
}

void DeferredUnwinder::flush(std::uint32_t sessions) {
  for (auto stack = stacks_.begin(); stack != stacks_.end();) {
    if ((stack->sample.sessions & sessions) == 0) {
      ++stack;
      continue;
    }
    bytes_ -= stack->window.size() * sizeof(std::uint64_t);
    give_up(*stack);
    stack = stacks_.erase(stack);
  }
}

// From the frame that was found last, to the end or to a file whose table isn't there yet.
DeferredUnwinder::Progress DeferredUnwinder::walk(Stack& stack) {
  for (;;) {
    const CodeMapping* mapping = mappings_.find(stack.sample.process, stack.frame.code_address());
    if (mapping == nullptr) {  // its record was lost
      stack.sample.user_end = PROFD_END_TABLE_LATE;
      return Progress::kEnded;
    }
    if (mapping->kind == PROFD_MAPPING_FILE &&
        tables_.state(mapping->file) == UnwindTables::State::kUnknown) {
      stack.awaited = mapping->file;
      request_(*mapping);
      if (tables_.state(mapping->file) == UnwindTables::State::kUnknown) return Progress::kWaits;
    }
    stack.sample.user_end = step(stack, *mapping);
    if (stack.sample.user_end != PROFD_END_NO_USER_STACK) return Progress::kEnded;
    if (!push_frame(stack)) return Progress::kEnded;
  }
}

// The kernel side's order: the row, then the frame pointer.
profd_user_end DeferredUnwinder::step(Stack& stack, const CodeMapping& mapping) const {
  const StackWindow window(stack.window_start, stack.window);
  profd_user_end without = PROFD_END_NO_FRAME_POINTER;
  if (mapping.kind == PROFD_MAPPING_ANONYMOUS) {
    const auto [key, offset] = jit_code_location(stack.sample.process, stack.frame.code_address());
    if (tables_.state(key) == UnwindTables::State::kReady) {
      without = PROFD_END_NO_ROW;
      const profd_user_end end = step_by_rule(stack.frame, tables_.find_rule(key, offset), window);
      if (end != PROFD_END_NO_ROW) return end;
    }
  } else {
    const bool ready = tables_.state(mapping.file) == UnwindTables::State::kReady;
    without = ready ? PROFD_END_NO_ROW : PROFD_END_NO_TABLE;
    if (ready) {
      const std::uint64_t offset = stack.frame.code_address() - mapping.start + mapping.file_offset;
      const profd_user_end end =
          step_by_rule(stack.frame, tables_.find_rule(mapping.file, offset), window);
      if (end != PROFD_END_NO_ROW) return end;
    }
  }
  return step_by_frame_pointer(stack.frame, window, without);
}

// An address in no executable mapping is no frame.
bool DeferredUnwinder::push_frame(Stack& stack) const {
  const CodeMapping* mapping = mappings_.find(stack.sample.process, stack.frame.code_address());
  if (mapping == nullptr) {
    stack.sample.user_end = PROFD_END_PC_UNMAPPED;
    return false;
  }
  if (stack.user_frames.size() >= PROFD_MAX_USER_FRAMES) {
    stack.sample.user_end = PROFD_END_DEPTH_LIMIT;
    return false;
  }
  stack.user_frames.push_back(
      frame_word(stack.frame, list_mapping(stack.mapping_ids, mapping->id)));
  return true;
}

void DeferredUnwinder::give_up(Stack& stack) {
  ++given_up_;
  stack.sample.user_end = PROFD_END_TABLE_LATE;
  deliver(stack);
}

void DeferredUnwinder::deliver(Stack& stack) {
  std::vector<std::uint64_t> words = stack.kernel_frames;
  words.insert(words.end(), stack.user_frames.begin(), stack.user_frames.end());
  words.insert(words.end(), stack.mapping_ids.begin(), stack.mapping_ids.end());
  SampleView& sample = stack.sample;
  sample.words = words;
  sample.kernel_frames = sample.words.first(stack.kernel_frames.size());
  sample.user_frames = sample.words.subspan(stack.kernel_frames.size(), stack.user_frames.size());
  sample.mapping_ids = sample.words.last(stack.mapping_ids.size());
  next_.on_sample(sample);
}

void DeferredUnwinder::add_to(UnwindStats& stats) const {
  stats.deferred_waiting = stacks_.size();
  stats.deferred_done = done_;
  stats.deferred_abandoned = given_up_;
}

}  // namespace profd
