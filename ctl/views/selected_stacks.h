// The stacks that a view shows, one after the other, each from the root on.
//
// Samples are usually sorted by their stacks (formats/profile/pprof_order.h), so most of a stack's
// outer frames are those of the stack before it. They are neither decoded nor searched again, and
// shared() lets a view keep what it made of them.

#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <string_view>
#include <vector>

#include "ctl/views/samples.h"
#include "ctl/views/selection.h"

namespace profd {

class SelectedStacks {
 public:
  // Borrows the selection.
  explicit SelectedStacks(const Selection& selection) : selection_(selection) {}

  // Reads a row of the samples. False: it is not shown, and the rest stays as it is.
  [[nodiscard]] bool read(const Samples::Row& row);

  // The frames that are shown, the outermost first.
  [[nodiscard]] std::span<const std::uint32_t> frames() const { return frames_; }
  // How many of them, from the outermost on, are those of the row that was shown before.
  [[nodiscard]] std::size_t shared() const { return shared_; }

 private:
  // A location of path_, with all outer ones.
  struct Step {
    std::size_t bytes = 0;   // of their numbers, which end the encoded stack
    std::size_t frames = 0;  // their number in path_
    std::uint8_t marks = 0;  // of their frames, joined
  };

  void follow(std::string_view stack);
  void enter(std::uint32_t location, std::size_t bytes);
  void show_path();
  void show_rest();

  const Selection& selection_;
  std::string_view stack_;  // of the last row
  std::vector<Step> steps_;
  std::vector<std::uint32_t> path_;  // all frames of the last row, the outermost first
  std::size_t kept_ = 0;             // frames of path_ that are those of the last row shown
  std::vector<std::uint32_t> frames_;
  std::size_t shared_ = 0;

  struct Inner {
    std::uint32_t location = 0;
    std::size_t bytes = 0;
  };
  std::vector<Inner> inner_;  // of follow(), to keep its memory
};

}  // namespace profd
