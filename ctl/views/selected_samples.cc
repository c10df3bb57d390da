#include "ctl/views/selected_samples.h"

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <utility>
#include <vector>

#include "ctl/views/selected_stacks.h"

namespace profd {
namespace {

constexpr std::uint32_t kNotCopied = 0xffffffff;
constexpr std::uint32_t kAllHidden = 0xfffffffe;  // a location without a frame that is shown

class SelectedCopy {
 public:
  explicit SelectedCopy(const Selection& selection)
      : selection_(selection),
        from_(selection.samples()),
        texts_(from_.text_count(), kNotCopied),
        functions_(from_.functions().size(), kNotCopied),
        label_sets_(from_.labels().size(), kNotCopied),
        locations_(from_.location_count(), kNotCopied) {
    to_.event = from_.event;
    to_.has_cpu_time = from_.has_cpu_time;
    to_.time_kind = from_.time_kind;
    to_.has_counts = from_.has_counts;
    to_.duration_ns = from_.duration_ns;
    to_.time_ns = from_.time_ns;
    to_.losses = from_.losses;
    to_.idle = from_.idle;
  }

  Samples make() {
    const auto rows = from_.rows();
    std::vector<std::uint32_t> places(rows.size(), kNotCopied);
    SelectedStacks stacks(selection_);
    for (std::size_t i = 0; i < rows.size(); ++i) {
      if (!stacks.read(rows[i])) continue;
      places[i] = static_cast<std::uint32_t>(to_.rows().size());
      add(rows[i]);
    }
    add_times(places);
    return std::move(to_);
  }

 private:
  void add(const Samples::Row& row) {
    from_.read_locations(row, stack_);
    for (std::uint32_t& location : stack_) location = copied_location(location);
    std::erase(stack_, kAllHidden);
    to_.add(stack_, copied_labels(row.labels), row.value);
  }

  void add_times(const std::vector<std::uint32_t>& places) {
    if (!from_.times()) return;
    SampleTimes times = *from_.times();
    std::erase_if(times.entries,
                  [&](const SampleTime& time) { return places[time.sample] == kNotCopied; });
    for (SampleTime& time : times.entries) time.sample = places[time.sample];
    (void)to_.set_times(std::move(times));
  }

  std::uint32_t copied_text(std::uint32_t index) {
    if (texts_[index] == kNotCopied) texts_[index] = to_.add_text(from_.text(index));
    return texts_[index];
  }

  std::uint32_t copied_function(std::uint32_t index) {
    if (functions_[index] != kNotCopied) return functions_[index];
    const SampledFunction& one = from_.functions()[index];
    functions_[index] = to_.add_function({.name = copied_text(one.name),
                                          .file = copied_text(one.file),
                                          .object = copied_text(one.object),
                                          .kind = one.kind});
    return functions_[index];
  }

  std::uint32_t copied_location(std::uint32_t index) {
    if (locations_[index] != kNotCopied) return locations_[index];
    frames_.clear();
    for (const std::uint32_t frame : from_.frames_of_location(index)) {
      if (Selection::hides(selection_.marks(frame))) continue;
      const SampledFrame& one = from_.frames()[frame];
      frames_.push_back({.function = copied_function(one.function), .line = one.line});
    }
    locations_[index] = frames_.empty() ? kAllHidden : to_.add_location(frames_);
    return locations_[index];
  }

  std::uint32_t copied_labels(std::uint32_t index) {
    if (label_sets_[index] != kNotCopied) return label_sets_[index];
    const SampleLabels& set = from_.labels()[index];
    label_sets_[index] = to_.add_labels({.pid = set.pid,
                                         .tid = set.tid,
                                         .comm = copied_text(set.comm),
                                         .unit = copied_text(set.unit),
                                         .container = copied_text(set.container),
                                         .user = copied_text(set.user),
                                         .runtime = copied_text(set.runtime),
                                         .thread = copied_text(set.thread),
                                         .state = copied_text(set.state),
                                         .wait = copied_text(set.wait),
                                         .ongoing = copied_text(set.ongoing)});
    return label_sets_[index];
  }

  const Selection& selection_;
  const Samples& from_;
  Samples to_;
  // By index in from_: where it is in to_.
  std::vector<std::uint32_t> texts_;
  std::vector<std::uint32_t> functions_;
  std::vector<std::uint32_t> label_sets_;
  std::vector<std::uint32_t> locations_;
  // Of one call, to keep their memory.
  std::vector<std::uint32_t> stack_;
  std::vector<SampledFrame> frames_;
};

}  // namespace

Samples selected_samples(const Selection& selection) { return SelectedCopy(selection).make(); }

bool shows_any(const Selection& selection) {
  SelectedStacks stacks(selection);
  return std::ranges::any_of(selection.samples().rows(),
                             [&stacks](const Samples::Row& row) { return stacks.read(row); });
}

}  // namespace profd
