#include "collectors/off_cpu/unsampled_balance.h"

#include <algorithm>

namespace profd {
namespace {

// Of what is owed, in each sample: small, so that it hardly depends on the sample which stack gets
// it.
constexpr double kPart = 1.0 / 8;

double take_factor(double& owed, double value) {
  const double change = std::clamp(owed * kPart, -value / 2, value);
  owed -= value + change;
  return 1 + change / value;
}

}  // namespace

void UnsampledBalance::add(const BlockTerm& unsampled) {
  blocks_ += static_cast<double>(unsampled.blocks);
  ns_ += static_cast<double>(unsampled.ns);
}

UnsampledBalance::Factors UnsampledBalance::take(double blocks, double ns) {
  const double of_blocks = take_factor(blocks_, blocks);
  const double of_ns = take_factor(ns_, ns);
  return {.blocks = of_blocks, .ns = of_ns};
}

}  // namespace profd
