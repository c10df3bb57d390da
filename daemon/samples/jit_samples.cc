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

}  // namespace

bool means_the_same(const StackTable& stacks, const StackTable::Stack& stack,
                    std::uint64_t time_a_ns, std::uint64_t time_b_ns, const JitLookup& code) {
  const auto words = stacks.user_frames(stack);
  for (std::size_t i = 0; i < words.size(); ++i) {
    const std::uint64_t address = code_address_of(words, i);
    const std::uint64_t before = generation_at(code, address, time_a_ns);
    if (before != generation_at(code, address, time_b_ns)) return false;
  }
  return true;
}

JitResolver::JitResolver(const StackTable& stacks, JitLog log, const ProcessImage& image,
                         JitLookup code)
    : stacks_(stacks), image_(image), log_(std::move(log)), code_(std::move(code)) {
  log_.sort();
}

bool JitResolver::advance(std::size_t frames) {
  for (std::size_t done = 0; done < frames && stack_ < stacks_.stacks().size();) done += step();
  return stack_ < stacks_.stacks().size();
}

JitSamples JitResolver::take() {
  samples_.time_dropped = log_.time_dropped();
  return std::move(samples_);
}

// Adds the next run of the stack. Samples without a time are its last run. Returns how many frames
// were looked at, 1 at least.
std::size_t JitResolver::step() {
  const StackTable::Stack& stack = stacks_.stacks()[stack_];
  const std::size_t frames = stacks_.user_frames(stack).size();
  const auto left = log_.entries().subspan(next_);
  const auto is_of_stack = [this](const JitLog::Entry& entry) { return entry.stack == stack_; };
  const auto end = std::ranges::partition_point(left, is_of_stack);
  const auto entries = left.first(static_cast<std::size_t>(end - left.begin()));
  if (!stack.is_timed || entries.empty()) {
    if (stack.is_timed && counted_ != stack.count) add_run(stack.count - counted_, kNoTime);
    counted_ = 0;
    ++stack_;
    return 1 + frames;
  }
  std::size_t looked_at = frames;
  const auto same = [&](std::uint32_t, std::uint64_t a, std::uint64_t b) {
    looked_at += frames;
    return means_the_same(stacks_, stack, a, b, code_);
  };
  const auto run = entries.first(run_length(entries, same));
  std::uint64_t count = 0;
  for (const JitLog::Entry& entry : run) count += entry.count;
  add_run(count, run.front().time_ns);
  counted_ += count;
  next_ += run.size();
  return 1 + looked_at;
}

// An unnamed address is noted for the first run of a stack, and not again for the next ones.
void JitResolver::add_run(std::uint64_t count, std::uint64_t time_ns) {
  const StackTable::Stack& stack = stacks_.stacks()[stack_];
  std::optional<std::size_t> before;  // the first frame of the stack's last run
  if (!samples_.runs.empty() && samples_.runs.back().stack == stack_) {
    before = samples_.runs.back().first_frame;
  }
  samples_.runs.push_back({.stack = stack_, .count = count, .first_frame = samples_.frames.size()});
  const auto words = stacks_.user_frames(stack);
  for (std::size_t i = 0; i < words.size(); ++i) {
    std::uint32_t function = JitSamples::kNoFunction;
    if (is_candidate(stack, UserFrame::from_word(words[i]))) {
      const std::uint64_t address = code_address_of(words, i);
      function = function_at(address, time_ns);
      const bool is_noted = before && samples_.frames[*before + i] == JitSamples::kNoFunction;
      if (function == JitSamples::kNoFunction && !is_noted) samples_.unnamed.push_back(address);
    }
    samples_.frames.push_back(function);
  }
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
