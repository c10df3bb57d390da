#include "collectors/off_cpu/block_ledger.h"

#include <cstddef>

namespace profd {

BlockTerm& BlockTerm::operator+=(const BlockTerm& other) {
  blocks += other.blocks;
  ns += other.ns;
  return *this;
}

BlockTerm& BlockTerm::operator-=(const BlockTerm& other) {
  blocks -= other.blocks;
  ns -= other.ns;
  return *this;
}

BlockLedger& BlockLedger::operator+=(const BlockLedger& more) {
  blocked += more.blocked;
  sampled += more.sampled;
  long_unsampled += more.long_unsampled;
  short_unsampled += more.short_unsampled;
  for (std::size_t i = 0; i < lost.size(); ++i) lost[i] += more.lost[i];
  delivered += more.delivered;
  by_weight += more.by_weight;
  without_stack += more.without_stack;
  from_before += more.from_before;
  ongoing += more.ongoing;
  no_room += more.no_room;
  no_start += more.no_start;
  no_end += more.no_end;
  return *this;
}

BlockLedger& BlockLedger::operator-=(const BlockLedger& before) {
  blocked -= before.blocked;
  sampled -= before.sampled;
  long_unsampled -= before.long_unsampled;
  short_unsampled -= before.short_unsampled;
  for (std::size_t i = 0; i < lost.size(); ++i) lost[i] -= before.lost[i];
  delivered -= before.delivered;
  by_weight -= before.by_weight;
  without_stack -= before.without_stack;
  from_before -= before.from_before;
  ongoing -= before.ongoing;
  no_room -= before.no_room;
  no_start -= before.no_start;
  no_end -= before.no_end;
  return *this;
}

}  // namespace profd
