#include "collectors/unwinding/deferred_unwinder.h"

#include <algorithm>
#include <utility>

namespace profd {
namespace {

std::uint64_t frame_word(const UnwindFrame& frame, std::size_t mapping) {
  return (frame.ip & PROFD_FRAME_ADDRESS_MASK) |
         std::uint64_t{mapping} << PROFD_FRAME_MAPPING_SHIFT |
         std::uint64_t{frame.how} << PROFD_FRAME_HOW_SHIFT;
}

// The index of a mapping in a stack's list, to which it is added.
std::size_t list_mapping(std::vector<std::uint64_t>& ids, std::uint64_t id) {
  const auto known = std::ranges::find(ids, id);
  if (known != ids.end()) return static_cast<std::size_t>(known - ids.begin());
  if (ids.size() >= PROFD_MAX_STACK_MAPPINGS) return PROFD_NO_MAPPING;
  ids.push_back(id);
  return ids.size() - 1;
}

}  // namespace

DeferredUnwinder::DeferredUnwinder(const UnwindTables& tables, const ProcessMappings& mappings,
                                   Request request, IsLoopOfFile is_loop, Deliver deliver)
    : tables_(tables),
      mappings_(mappings),
      request_(std::move(request)),
      is_loop_(std::move(is_loop)),
      deliver_(std::move(deliver)) {}

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

std::size_t DeferredUnwinder::Stack::bytes() const {
  return std::max(window.size() * sizeof(std::uint64_t), kMinBytes) +
         interpreted.entries.size() * sizeof(profd_interpreted_entry);
}

void DeferredUnwinder::add(const DeferredSampleView& deferred, std::uint32_t user,
                           Clock::time_point now, const InterpretedStack* interpreted) {
  Stack stack = copy_of(deferred);
  if (interpreted != nullptr) stack.interpreted = *interpreted;
  stack.deadline = now + kMaxWait;
  stack.user = user;
  const std::size_t bytes = stack.bytes();
  const Progress progress = walk(stack);
  if (progress == Progress::kEnded || !has_room(user, bytes)) {
    finish(stack, progress);
    return;
  }
  bytes_ += bytes;
  if (user != 0) {
    bytes_of_users_ += bytes;
    bytes_of_user_[user] += bytes;
  }
  stacks_.push_back(std::move(stack));
}

bool DeferredUnwinder::has_room(std::uint32_t user, std::size_t bytes) const {
  if (bytes_ + bytes > kMaxBytes) return false;
  if (user == 0 || bytes_of_users_ + bytes <= kFreeBytesOfUsers) return true;
  if (bytes_of_users_ + bytes > kMaxBytesOfUsers) return false;
  const auto own = bytes_of_user_.find(user);
  return own == bytes_of_user_.end() || own->second + bytes <= kMaxBytesOfUser;
}

// Stacks that still wait go to the end, so that the next call begins with those that this one did
// not reach.
bool DeferredUnwinder::poll(Clock::time_point now, Clock::time_point end) {
  std::size_t walks = 0;
  for (std::size_t left = stacks_.size(); left != 0; --left) {
    const auto stack = stacks_.begin();
    const bool is_known = tables_.state(stack->awaited) != UnwindTables::State::kUnknown;
    const Progress progress = is_known ? walk(*stack) : Progress::kWaits;
    if (progress == Progress::kEnded || now >= stack->deadline) {
      remove(stack, progress);
      ++walks;
    } else {
      stacks_.splice(stacks_.end(), stacks_, stack);
      walks += is_known ? 1 : 0;
    }
    if (walks == kMaxWalks || (walks != 0 && Clock::now() >= end)) return left > 1;
  }
  return false;
}

void DeferredUnwinder::flush(std::uint32_t sessions) {
  for (auto stack = stacks_.begin(); stack != stacks_.end();) {
    const bool is_of_them = (stack->sample.sessions & sessions) != 0;
    stack = is_of_them ? remove(stack, Progress::kWaits) : std::next(stack);
  }
}

DeferredUnwinder::Stacks::iterator DeferredUnwinder::remove(Stacks::iterator stack,
                                                            Progress progress) {
  const std::size_t bytes = stack->bytes();
  bytes_ -= bytes;
  if (stack->user != 0) {
    bytes_of_users_ -= bytes;
    const auto own = bytes_of_user_.find(stack->user);
    own->second -= bytes;
    if (own->second == 0) bytes_of_user_.erase(own);
  }
  finish(*stack, progress);
  return stacks_.erase(stack);
}

// Walks from the last frame to the end of the stack, or to a file that has no table yet.
DeferredUnwinder::Progress DeferredUnwinder::walk(Stack& stack) {
  AnchorWalk anchors(stack.interpreted);
  for (;;) {
    const CodeMapping* mapping = mappings_.find(stack.sample.process, stack.frame.code_address());
    if (mapping == nullptr) {  // the mapping's record was lost
      stack.sample.user_end = PROFD_END_TABLE_LATE;
      return Progress::kEnded;
    }
    if (mapping->kind == PROFD_MAPPING_FILE &&
        tables_.state(mapping->file) == UnwindTables::State::kUnknown) {
      stack.awaited = mapping->file;
      request_(*mapping);
      if (tables_.state(mapping->file) == UnwindTables::State::kUnknown) return Progress::kWaits;
    }
    const UnwindFrame before = stack.frame;
    stack.sample.user_end = step(stack, *mapping);
    meet(anchors, stack, *mapping, before);
    if (stack.sample.user_end != kStepped) return Progress::kEnded;
    if (!push_frame(stack)) return Progress::kEnded;
  }
}

// As in the BPF program: by the row, otherwise by the frame pointer.
profd_user_end DeferredUnwinder::step(Stack& stack, const CodeMapping& mapping) const {
  const StackWindow window(stack.window_start, stack.window);
  const std::uint64_t address = stack.frame.code_address();
  const bool is_jit = mapping.kind == PROFD_MAPPING_ANONYMOUS;
  const auto [key, offset] =
      is_jit ? jit_code_location(stack.sample.process, address)
             : JitCodeLocation{mapping.file, address - mapping.start + mapping.file_offset};
  if (tables_.state(key) != UnwindTables::State::kReady) {
    return step_by_frame_pointer(stack.frame, window,
                                 is_jit ? PROFD_END_NO_FRAME_POINTER : PROFD_END_NO_TABLE);
  }
  const profd_user_end end = step_by_rule(stack.frame, tables_.find_rule(key, offset), window);
  if (end != PROFD_END_NO_ROW) return end;
  return step_by_frame_pointer(stack.frame, window, PROFD_END_NO_ROW);
}

// The last native frame may be the loop of the next interpreted ones: it has their anchor between
// its stack pointer and that of its caller, or, without anchors, its code is that of a loop.
void DeferredUnwinder::meet(AnchorWalk& anchors, const Stack& stack, const CodeMapping& mapping,
                            const UnwindFrame& before) const {
  if (stack.interpreted.empty()) return;
  const std::size_t native_frame = stack.user_frames.size() - 1;
  if (!anchors.goes_by_loop()) {
    if (stack.sample.user_end == kStepped) anchors.step(native_frame, before.sp, stack.frame.sp);
    return;
  }
  const std::uint64_t offset = before.code_address() - mapping.start + mapping.file_offset;
  if (mapping.kind == PROFD_MAPPING_FILE && is_loop_(mapping.file, offset)) {
    anchors.meet_loop(native_frame);
  }
}

// An address outside executable mappings is not a frame.
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

// Counts and delivers the stack. If it was still waiting for a table, it is incomplete.
void DeferredUnwinder::finish(Stack& stack, Progress progress) {
  if (progress == Progress::kWaits) stack.sample.user_end = PROFD_END_TABLE_LATE;
  ++(progress == Progress::kWaits ? abandoned_ : done_);
  std::vector<std::uint64_t> words = stack.kernel_frames;
  words.insert(words.end(), stack.user_frames.begin(), stack.user_frames.end());
  words.insert(words.end(), stack.mapping_ids.begin(), stack.mapping_ids.end());
  SampleView& sample = stack.sample;
  sample.words = words;
  sample.kernel_frames = sample.words.first(stack.kernel_frames.size());
  sample.user_frames = sample.words.subspan(stack.kernel_frames.size(), stack.user_frames.size());
  sample.mapping_ids = sample.words.last(stack.mapping_ids.size());
  deliver_(sample, stack.interpreted);
}

void DeferredUnwinder::add_to(UnwindStats& stats) const {
  stats.deferred_waiting = stacks_.size();
  stats.deferred_done = done_;
  stats.deferred_abandoned = abandoned_;
}

}  // namespace profd
