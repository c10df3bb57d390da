// Blocks of threads through the choice of the kernel side and the estimate of user space, without a
// kernel: what a profile would have of them.

#pragma once

#include <cmath>
#include <cstddef>
#include <cstdint>
#include <map>
#include <optional>
#include <random>
#include <utility>
#include <vector>

#include "bpf/block_choice.h"
#include "collectors/off_cpu/block_estimate.h"

namespace profd::test {

struct TraceBlock {
  std::uint64_t start_ns = 0;
  std::uint64_t ns = 0;
  std::uint32_t thread = 0;
  std::uint32_t site = 1;   // never 0
  std::uint32_t group = 0;  // by which times are added up
  std::uint32_t uid = 0;
  unsigned cpu = 0;
};

// By their start, each with the chance by which the kernel side chooses it. The chance depends on
// the earlier blocks alone, not on which of them were chosen.
class SimulatedBlocks {
 public:
  SimulatedBlocks(std::vector<TraceBlock> blocks, const profd_block_rate& rate)
      : rate_(rate), blocks_(std::move(blocks)) {
    chances_.reserve(blocks_.size());
    for (const TraceBlock& block : blocks_) chances_.push_back(choose(block));
  }

  [[nodiscard]] const std::vector<TraceBlock>& blocks() const { return blocks_; }
  [[nodiscard]] std::uint32_t chance(std::size_t block) const { return chances_[block]; }

  // What is true, in nanoseconds by group.
  [[nodiscard]] std::map<std::uint32_t, double> true_times() const {
    std::map<std::uint32_t, double> times;
    for (const TraceBlock& block : blocks_) times[block.group] += static_cast<double>(block.ns);
    return times;
  }

  // What a profile says, and how many blocks were chosen.
  struct Estimated {
    std::map<std::uint32_t, double> times;
    std::uint64_t chosen = 0;
  };
  [[nodiscard]] Estimated estimate(std::uint32_t seed) const {
    std::mt19937 random(seed);
    BlockEstimator estimator(rate_.long_ns);
    std::map<std::uint32_t, profd_block_draw> draws;  // by thread
    Estimated estimated;
    for (std::size_t i = 0; i < blocks_.size(); ++i) {
      const TraceBlock& block = blocks_[i];
      std::uint32_t chance = chances_[i];
      profd_block_draw& draw = draws[block.thread];
      const auto bits = static_cast<std::uint32_t>(random());
      const bool is_chosen =
          profd_is_chosen(&draw, &chance, profd_begins_part(&draw, chance) ? bits : 0);
      estimated.chosen += is_chosen ? 1 : 0;
      if (!is_chosen && block.ns < rate_.long_ns) continue;
      const BlockSpan span{.start_ns = block.start_ns, .end_ns = block.start_ns + block.ns};
      const auto value =
          estimator.estimate(span, span, is_chosen ? std::optional(chance) : std::nullopt);
      if (value) estimated.times[block.group] += static_cast<double>(value->ns);
    }
    return estimated;
  }

 private:
  struct Thread {
    profd_block_history history{};
    std::optional<std::uint64_t> lasted_ns;  // its last block
  };

  std::uint32_t choose(const TraceBlock& block) {
    Thread& thread = threads_[block.thread];
    if (thread.lasted_ns) profd_learn_block(&thread.history, *thread.lasted_ns);
    thread.lasted_ns = block.ns;
    return profd_choose_block(&tokens_[block.cpu], &thread.history, &rate_, block.uid, block.site,
                              block.start_ns);
  }

  profd_block_rate rate_;
  std::vector<TraceBlock> blocks_;
  std::vector<std::uint32_t> chances_;
  std::map<std::uint32_t, Thread> threads_;
  std::map<unsigned, profd_walk_tokens> tokens_;
};

struct MeanTime {
  double ns = 0;
  double error = 0;  // its standard error
};

// Of the estimates of the seeds 0 to `seeds` - 1, by group. A group that a seed lacks has no time
// in it.
inline std::map<std::uint32_t, MeanTime> mean_times(const SimulatedBlocks& simulated,
                                                    std::uint32_t seeds) {
  std::map<std::uint32_t, std::vector<double>> estimates;
  for (const auto& [group, time] : simulated.true_times()) estimates[group].resize(seeds);
  for (std::uint32_t seed = 0; seed < seeds; ++seed) {
    for (const auto& [group, time] : simulated.estimate(seed).times) estimates[group][seed] = time;
  }
  std::map<std::uint32_t, MeanTime> means;
  for (const auto& [group, values] : estimates) {
    MeanTime mean;
    for (const double value : values) mean.ns += value / seeds;
    double squares = 0;
    for (const double value : values) squares += (value - mean.ns) * (value - mean.ns);
    mean.error = std::sqrt(squares / (seeds - 1) / seeds);
    means[group] = mean;
  }
  return means;
}

}  // namespace profd::test
