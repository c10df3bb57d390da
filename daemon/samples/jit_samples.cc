#include "daemon/samples/jit_samples.h"

#include <algorithm>
#include <limits>
#include <utility>

namespace profd {
namespace {

// A sample without a time gets the newest function.
constexpr std::uint64_t kNoTime = std::numeric_limits<std::uint64_t>::max();

std::uint64_t code_address_of(std::span<const std::uint64_t> words, std::size_t index) {
  return code_address(UserFrame::from_word(words[index]), kind_of_frame(words, index));
}

// 0: there is no function.
std::uint64_t generation_at(const JitLookup& code, std::uint64_t address, std::uint64_t time_ns) {
  const auto found = code.at(address, time_ns);
  return found ? found->generation + 1 : 0;
}

// An interpreted frame means the same at all times.
bool frame_means_the_same(std::span<const std::uint64_t> words, std::size_t index,
                          std::uint64_t time_a_ns, std::uint64_t time_b_ns, const JitLookup& code) {
  if (InterpretedFrame::is(words[index])) return true;
  const std::uint64_t address = code_address_of(words, index);
  return generation_at(code, address, time_a_ns) == generation_at(code, address, time_b_ns);
}

}  // namespace

bool means_the_same(const StackTable& stacks, const StackTable::Stack& stack,
                    std::uint64_t time_a_ns, std::uint64_t time_b_ns, const JitLookup& code,
                    std::chrono::steady_clock::time_point end) {
  const auto words = stacks.user_frames(stack);
  for (std::size_t i = 0; i < words.size(); ++i) {
    const bool is_clock_due = i % JitResolver::kFramesOfClock == 0;
    if (is_clock_due && JitResolver::Clock::now() >= end) return false;
    if (!frame_means_the_same(words, i, time_a_ns, time_b_ns, code)) return false;
  }
  return true;
}

JitResolver::JitResolver(const StackTable& stacks, JitLog log, const ProcessImage& image,
                         JitLookup code)
    : stacks_(stacks), image_(image), log_(std::move(log)), code_(std::move(code)) {
  log_.sort();
}

bool JitResolver::Turn::take_frame() {
  const bool is_clock_due = taken != 0 && taken % kFramesOfClock == 0;
  if (left > 0 && is_clock_due && Clock::now() >= end) left = 0;
  if (left == 0) return false;
  --left;
  ++taken;
  return true;
}

bool JitResolver::advance(std::size_t frames, Clock::time_point end) {
  turn_ = {.left = frames, .end = end};
  while (stack_ < stacks_.stacks().size()) {
    if (!step()) return true;
  }
  return false;
}

JitSamples JitResolver::take() {
  samples_.time_dropped = log_.time_dropped();
  return std::move(samples_);
}

// Resolves the run that has begun, or begins the next run of the stack, or goes to the next stack.
// Samples without a time are the last run of a stack.
bool JitResolver::step() {
  if (run_time_ns_) return add_frames();
  const StackTable::Stack& stack = stacks_.stacks()[stack_];
  const auto entries = entries_of_stack();
  if (!stack.is_timed || entries.empty()) {
    if (stack.is_timed && counted_ != stack.count) {
      begin_run(stack.count - counted_, kNoTime);
      return true;
    }
    if (!turn_.take_frame()) return false;  // there may be very many stacks without frames
    counted_ = 0;
    ++stack_;
    return true;
  }
  const auto length = length_of_run(entries);
  if (!length) return false;
  std::uint64_t count = 0;
  for (const JitLog::Entry& entry : entries.first(*length)) count += entry.count;
  begin_run(count, entries.front().time_ns);
  next_ += *length;
  return true;
}

// Those that are in no run yet.
std::span<const JitLog::Entry> JitResolver::entries_of_stack() const {
  const auto left = log_.entries().subspan(next_);
  const auto is_of_stack = [this](const JitLog::Entry& entry) { return entry.stack == stack_; };
  const auto end = std::ranges::partition_point(left, is_of_stack);
  return left.first(static_cast<std::size_t>(end - left.begin()));
}

// A search that the end of a turn interrupts is done again in the next turn, with the results of
// its comparisons so far.
std::optional<std::size_t> JitResolver::length_of_run(std::span<const JitLog::Entry> entries) {
  std::size_t asked = 0;
  bool is_over = false;
  const auto same = [&](std::uint32_t, std::uint64_t time_a_ns, std::uint64_t time_b_ns) {
    if (!is_over && asked == compared_.size()) {
      const auto result = compare(time_a_ns, time_b_ns);
      is_over = !result;
      if (result) compared_.push_back(*result);
    }
    return !is_over && compared_[asked++];
  };
  const std::size_t length = run_length(entries, same);
  if (is_over) return std::nullopt;
  compared_.clear();
  return length;
}

// Whether all frames of the stack mean the same at both times.
std::optional<bool> JitResolver::compare(std::uint64_t time_a_ns, std::uint64_t time_b_ns) {
  const auto words = stacks_.user_frames(stacks_.stacks()[stack_]);
  for (; frame_ < words.size(); ++frame_) {
    if (!turn_.take_frame()) return std::nullopt;
    if (!frame_means_the_same(words, frame_, time_a_ns, time_b_ns, code_)) break;
  }
  return std::exchange(frame_, 0) == words.size();
}

void JitResolver::begin_run(std::uint64_t count, std::uint64_t time_ns) {
  samples_.runs.push_back({.stack = stack_, .count = count, .first_frame = samples_.frames.size()});
  counted_ += count;
  run_time_ns_ = time_ns;
}

// An unnamed address is noted for the first run of a stack, and not again for the next ones.
bool JitResolver::add_frames() {
  const std::size_t first = samples_.runs.back().first_frame;
  const std::size_t count = stacks_.user_frames(stacks_.stacks()[stack_]).size();
  std::optional<std::size_t> before;  // the first frame of the stack's run before this one
  const std::size_t runs = samples_.runs.size();
  if (runs > 1 && samples_.runs[runs - 2].stack == stack_) {
    before = samples_.runs[runs - 2].first_frame;
  }
  for (std::size_t i = samples_.frames.size() - first; i < count; ++i) {
    if (!turn_.take_frame()) return false;
    const bool is_noted = before && samples_.frames[*before + i] == JitSamples::kNoFunction;
    samples_.frames.push_back(function_of_frame(i, is_noted));
  }
  run_time_ns_.reset();
  return true;
}

// Of the current stack, at the time of the last run.
std::uint32_t JitResolver::function_of_frame(std::size_t index, bool is_noted) {
  const StackTable::Stack& stack = stacks_.stacks()[stack_];
  const auto words = stacks_.user_frames(stack);
  if (InterpretedFrame::is(words[index])) return JitSamples::kNoFunction;
  if (!is_candidate(stack, UserFrame::from_word(words[index]))) return JitSamples::kNoFunction;
  const std::uint64_t address = code_address_of(words, index);
  const std::uint32_t function = function_at(address, *run_time_ns_);
  if (function == JitSamples::kNoFunction && !is_noted) samples_.unnamed.push_back(address);
  return function;
}

// A mapping whose record did not come may have JIT code.
bool JitResolver::is_candidate(const StackTable::Stack& stack, const UserFrame& frame) const {
  const auto ids = stacks_.mapping_ids(stack);
  if (frame.mapping >= ids.size()) return true;
  const auto known = image_.mappings.find(ids[frame.mapping]);
  return known == image_.mappings.end() || may_be_jit_code(known->second);
}

std::uint32_t JitResolver::function_at(std::uint64_t address, std::uint64_t time_ns) {
  const auto found = code_.at(address, time_ns);
  if (!found) return JitSamples::kNoFunction;
  const auto next = static_cast<std::uint32_t>(samples_.functions.size());
  const auto [known, added] = by_generation_.try_emplace(found->generation, next);
  if (added) add_function(found->code);
  return known->second;
}

void JitResolver::add_function(const JitCode& code) {
  samples_.functions.push_back({.address = code.address,
                                .bytes = code.bytes,
                                .name = std::string(code.name),
                                .source = source_file_of(code),
                                .code = code.code,
                                .debug_info = code.debug_info});
}

std::size_t JitResolver::source_file_of(const JitCode& code) {
  const auto [known, added] = sources_.try_emplace(code.source, SampledJitCode::kNoSource);
  if (!added) return known->second;
  if (auto source = code_.source_file_of(code)) {
    known->second = samples_.sources.size();
    samples_.sources.push_back(std::move(*source));
  }
  return known->second;
}

}  // namespace profd
