#include "daemon/jit_samples.h"

#include <limits>
#include <map>
#include <set>
#include <utility>

#include <boost/unordered/unordered_flat_map.hpp>

#include "daemon/code_address.h"

namespace profd {
namespace {

// Where a sample's time was let go, the last that is known counts.
constexpr std::uint64_t kNoTime = std::numeric_limits<std::uint64_t>::max();

std::uint64_t code_address_of(std::span<const std::uint64_t> words, std::size_t index) {
  return code_address(UserFrame::from_word(words[index]), kind_of_frame(words, index));
}

// 0: none.
std::uint64_t generation_at(const JitLookup& code, std::uint64_t address, std::uint64_t time_ns) {
  const auto found = code.at(address, time_ns);
  return found ? found->generation + 1 : 0;
}

// Resolves the stacks of one process; a class only so that the steps share what they look up.
class Resolver {
 public:
  Resolver(const StackTable& stacks, const ProcessImage& image, const JitLookup& code)
      : stacks_(stacks), image_(image), code_(code) {}

  JitSamples resolve(std::span<const JitLog::Entry> sorted) {
    std::size_t next = 0;
    for (std::uint32_t stack = 0; stack < stacks_.stacks().size(); ++stack) {
      const std::size_t first = next;
      while (next < sorted.size() && sorted[next].stack == stack) ++next;
      if (stacks_.stacks()[stack].is_timed) add_stack(stack, sorted.subspan(first, next - first));
    }
    samples_.unnamed.assign(unnamed_.begin(), unnamed_.end());
    return std::move(samples_);
  }

 private:
  void add_stack(std::uint32_t index, std::span<const JitLog::Entry> entries) {
    const StackTable::Stack& stack = stacks_.stacks()[index];
    const JitLog::MeansTheSame same = [&](std::uint32_t, std::uint64_t a, std::uint64_t b) {
      return means_the_same(stacks_, stack, a, b, code_);
    };
    std::uint64_t left = stack.count;
    for_each_run(entries, same, [&](std::span<const JitLog::Entry> run) {
      std::uint64_t count = 0;
      for (const JitLog::Entry& entry : run) count += entry.count;
      add_run(index, count, run.front().time_ns);
      left -= count;
    });
    if (left != 0) add_run(index, left, kNoTime);
  }

  void add_run(std::uint32_t index, std::uint64_t count, std::uint64_t time_ns) {
    const StackTable::Stack& stack = stacks_.stacks()[index];
    samples_.runs.push_back(
        {.stack = index, .count = count, .first_frame = samples_.frames.size()});
    const auto words = stacks_.user_frames(stack);
    for (std::size_t i = 0; i < words.size(); ++i) {
      const bool may_be = is_candidate(stack, UserFrame::from_word(words[i]));
      samples_.frames.push_back(may_be ? function_at(code_address_of(words, i), time_ns)
                                       : JitSamples::kNoFunction);
    }
  }

  // A mapping of which no record came may be any.
  bool is_candidate(const StackTable::Stack& stack, const UserFrame& frame) const {
    const auto ids = stacks_.mapping_ids(stack);
    if (frame.mapping >= ids.size()) return true;
    const auto known = image_.mappings.find(ids[frame.mapping]);
    return known == image_.mappings.end() || may_be_made_at_run_time(known->second);
  }

  std::uint32_t function_at(std::uint64_t address, std::uint64_t time_ns) {
    const auto found = code_.at(address, time_ns);
    if (!found) {
      unnamed_.insert(address);
      return JitSamples::kNoFunction;
    }
    const auto next = static_cast<std::uint32_t>(samples_.functions.size());
    const auto [known, added] = by_generation_.try_emplace(found->generation, next);
    if (added) add_function(found->code);
    return known->second;
  }

  void add_function(const JitCode& code) {
    samples_.functions.push_back({.address = code.address,
                                  .bytes = code.bytes,
                                  .name = std::string(code.name),
                                  .source = source_of(code),
                                  .code = code.code,
                                  .debug_info = code.debug_info});
  }

  std::size_t source_of(const JitCode& code) {
    const auto [known, added] = sources_.try_emplace(code.source, SampledJitCode::kNoSource);
    if (!added) return known->second;
    if (auto source = code_.source_of(code)) {
      known->second = samples_.sources.size();
      samples_.sources.push_back(std::move(*source));
    }
    return known->second;
  }

  const StackTable& stacks_;
  const ProcessImage& image_;
  const JitLookup& code_;
  JitSamples samples_;
  boost::unordered_flat_map<std::uint64_t, std::uint32_t> by_generation_;
  std::map<std::uint32_t, std::size_t> sources_;
  std::set<std::uint64_t> unnamed_;
};

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

JitSamples resolve_jit(const StackTable& stacks, JitLog log, const ProcessImage& image,
                       const JitLookup& code) {
  log.sort();
  JitSamples samples = Resolver(stacks, image, code).resolve(log.entries());
  samples.blurred = log.blurred();
  return samples;
}

}  // namespace profd
