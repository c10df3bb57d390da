// The counters of the BPF programs: each CPU has its own, and what counts is their sum.

#pragma once

#include <bpf/bpf.h>
#include <bpf/libbpf.h>

#include <array>
#include <bit>
#include <cstddef>
#include <cstdint>
#include <vector>

#include "formats/base/result.h"

namespace profd {

// Adds `more` word by word. `Counters` has 64-bit counters only.
template <class Counters>
void add_counters(Counters& sum, const Counters& more) {
  using Words = std::array<std::uint64_t, sizeof(Counters) / sizeof(std::uint64_t)>;
  static_assert(sizeof(Words) == sizeof(Counters));
  auto words = std::bit_cast<Words>(sum);
  const auto added = std::bit_cast<Words>(more);
  for (std::size_t i = 0; i < words.size(); ++i) words[i] += added[i];
  sum = std::bit_cast<Counters>(words);
}

// The sums over all CPUs. `map` is the descriptor of a per-CPU array of one value.
template <class Counters>
[[nodiscard]] Result<Counters> sum_of_cpus(int map) {
  std::vector<Counters> cpus(static_cast<std::size_t>(libbpf_num_possible_cpus()));
  const std::uint32_t zero = 0;
  if (bpf_map_lookup_elem(map, &zero, cpus.data()) != 0) {
    return fail_errno("could not read the counters");
  }
  Counters total{};
  for (const Counters& cpu : cpus) add_counters(total, cpu);
  return total;
}

}  // namespace profd
