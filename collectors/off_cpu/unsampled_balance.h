// What a thread's samples by weight stand for beside themselves, against what the kernel side
// counted of the thread's blocks between its samples.
//
// Weights are right in the mean, but the blocks that are chosen are few, and taking their stack
// makes them some microseconds longer than those that they stand for. So a part of what the samples
// before had too much or too little is made up for by each sample: the sum of a thread's samples
// stays within some of them of the kernel's, however many there are, and the stacks keep their
// shares.

#pragma once

#include "collectors/off_cpu/block_ledger.h"

namespace profd {

class UnsampledBalance {
 public:
  // By which what a sample stands for beside itself is multiplied: 0.5 to 2.
  struct Factors {
    double blocks = 1;
    double ns = 1;
  };

  // What the thread had unsampled before a sample, since the one before that.
  void add(const BlockTerm& unsampled);

  // For a sample that stands for so many blocks and nanoseconds beside itself by its weight. Both
  // are above 0.
  [[nodiscard]] Factors take(double blocks, double ns);

 private:
  double blocks_ = 0;  // counted and not yet stood for, or less than 0
  double ns_ = 0;
};

}  // namespace profd
