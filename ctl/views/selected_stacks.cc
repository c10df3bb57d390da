#include "ctl/views/selected_stacks.h"

#include <algorithm>
#include <iterator>
#include <utility>

#include "formats/profile/packed_numbers.h"

namespace profd {

bool SelectedStacks::read(const Samples::Row& row) {
  follow(row.encoded());
  const std::uint8_t marks = steps_.empty() ? std::uint8_t{0} : steps_.back().marks;
  if (!selection_.shows(marks)) return false;
  if (Selection::hides(marks)) {
    if (std::ranges::all_of(path_, [this](std::uint32_t frame) {
          return Selection::hides(selection_.marks(frame));
        })) {
      return false;
    }
    show_rest();
  } else {
    show_path();
  }
  return true;
}

// Makes path_ that of the stack.
void SelectedStacks::follow(std::string_view stack) {
  const std::size_t common = common_last_numbers(stack_, stack);
  while (!steps_.empty() && steps_.back().bytes > common) steps_.pop_back();
  stack_ = stack;
  path_.resize(steps_.empty() ? 0 : steps_.back().frames);
  kept_ = std::min(kept_, path_.size());
  const std::size_t outer = steps_.empty() ? 0 : steps_.back().bytes;
  inner_.clear();
  for (std::string_view left = stack.substr(0, stack.size() - outer); !left.empty();) {
    const std::size_t bytes = left.size() + outer;
    inner_.push_back({.location = take_location(left), .bytes = bytes});
  }
  for (auto at = inner_.rbegin(); at != inner_.rend(); ++at) enter(at->location, at->bytes);
}

void SelectedStacks::enter(std::uint32_t location, std::size_t bytes) {
  std::uint8_t marks = steps_.empty() ? std::uint8_t{0} : steps_.back().marks;
  const auto frames = selection_.samples().frames_of_location(location);
  for (auto frame = frames.rbegin(); frame != frames.rend(); ++frame) {
    path_.push_back(*frame);
    marks |= selection_.marks(*frame);
  }
  steps_.push_back({.bytes = bytes, .frames = path_.size(), .marks = marks});
}

// Without hidden frames.
void SelectedStacks::show_path() {
  shared_ = kept_;
  frames_.resize(shared_);
  frames_.insert(frames_.end(), path_.begin() + static_cast<std::ptrdiff_t>(shared_), path_.end());
  kept_ = path_.size();
}

void SelectedStacks::show_rest() {
  std::vector<std::uint32_t> rest;
  std::ranges::copy_if(path_, std::back_inserter(rest), [this](std::uint32_t frame) {
    return !Selection::hides(selection_.marks(frame));
  });
  const auto differing = std::ranges::mismatch(rest, frames_);
  shared_ = static_cast<std::size_t>(differing.in1 - rest.begin());
  frames_ = std::move(rest);
  kept_ = 0;
}

}  // namespace profd
