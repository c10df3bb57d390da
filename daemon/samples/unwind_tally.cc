#include "daemon/samples/unwind_tally.h"

#include <algorithm>
#include <exception>
#include <map>
#include <numeric>
#include <string_view>
#include <tuple>
#include <utility>

#include "daemon/samples/hash_seed.h"
#include "daemon/samples/stack_table.h"

namespace profd {
namespace {

// Null where the frame lies in no mapping, or the mapping's record has not arrived. Interpreted
// frames may come behind the last native one.
const ProcessMapping* mapping_of_last_frame(const SampleView& sample,
                                            const ProcessTable& processes) {
  const auto frames = sample.user_frames;
  const auto native =
      std::ranges::find_if_not(frames.rbegin(), frames.rend(), InterpretedFrame::is);
  if (native == frames.rend()) return nullptr;
  const UserFrame last = UserFrame::from_word(*native);
  if (last.mapping >= sample.mapping_ids.size()) return nullptr;
  const ProcessImage* image = processes.find(sample.process);
  if (image == nullptr) return nullptr;
  const auto found = image->mappings.find(sample.mapping_ids[last.mapping]);
  return found == image->mappings.end() ? nullptr : &found->second;
}

std::string name_of(const ProcessMapping* mapping) {
  if (mapping == nullptr) return "[unknown]";
  if (mapping->kind == PROFD_MAPPING_VDSO) return "[vdso]";
  if (mapping->kind == PROFD_MAPPING_ANONYMOUS) return "[anon]";
  return mapping->file ? std::string(path_of(*mapping)) : "[unreachable]";
}

}  // namespace

void UnwindTally::count(const SampleView& sample, const ProcessTable& processes) noexcept {
  const StackClass stack_class = class_of(sample.context);
  if (stack_class == StackClass::kKernelOnly || !was_taken(sample.user_end)) return;
  if (stack_class == StackClass::kCompat) {
    ++compat_;
    return;
  }
  ++by_end_[sample.user_end];
  if (reached_root(sample.user_end)) return;
  try {
    count_object(sample, processes);
  } catch (const std::exception&) {  // no memory: the object stays unnamed
  }
}

void UnwindTally::count_object(const SampleView& sample, const ProcessTable& processes) {
  const ProcessMapping* mapping = mapping_of_last_frame(sample, processes);
  Place place;
  place.user_end = static_cast<std::uint8_t>(sample.user_end);
  if (mapping != nullptr) {
    place.file = mapping->file_key;
    place.kind = mapping->kind;
    place.known = true;
  }
  const auto found = objects_.find(place);
  if (found == objects_.end()) {
    add_object(place, name_of(mapping));
  } else {
    ++found->second.samples;
  }
}

void UnwindTally::add_object(const Place& place, std::string path) {
  const std::size_t bytes = path.size();
  if (objects_.size() >= kMaxObjects || path_bytes_ + bytes > kMaxPathBytes) drop_smaller_half();
  objects_.emplace(place, Breaks{.path = std::move(path), .samples = 1});
  path_bytes_ += bytes;
}

void UnwindTally::drop_smaller_half() {
  std::vector<std::uint64_t> counts;
  counts.reserve(objects_.size());
  for (const auto& [place, breaks] : objects_) counts.push_back(breaks.samples);
  const auto middle = counts.begin() + static_cast<std::ptrdiff_t>(counts.size() / 2);
  std::ranges::nth_element(counts, middle);
  boost::unordered::erase_if(objects_, [this, median = *middle](const auto& entry) {
    const bool is_dropped = entry.second.samples <= median;
    if (is_dropped) path_bytes_ -= entry.second.path.size();
    return is_dropped;
  });
}

std::uint64_t UnwindTally::user_samples() const {
  return std::accumulate(by_end_.begin(), by_end_.end(), compat_);
}

std::uint64_t UnwindTally::complete_samples() const { return by_end_[PROFD_END_ENTRY]; }

CountsByReason UnwindTally::incomplete() const {
  CountsByReason counts;
  if (compat_ != 0) counts.emplace(incomplete_reason(StackClass::kCompat, 0), compat_);
  for (unsigned end = 0; end < by_end_.size(); ++end) {
    if (by_end_[end] == 0 || reached_root(end)) continue;
    counts.emplace(incomplete_reason(StackClass::kUser, end), by_end_[end]);
  }
  return counts;
}

std::vector<StatusInfo::Unwinding::Object> UnwindTally::worst(std::size_t count) const {
  using Object = StatusInfo::Unwinding::Object;
  std::map<std::pair<std::string_view, unsigned>, std::uint64_t> by_path;  // files may share one
  for (const auto& [place, breaks] : objects_) {
    by_path[{breaks.path, place.user_end}] += breaks.samples;
  }
  std::vector<Object> objects;
  objects.reserve(by_path.size());
  for (const auto& [place, samples] : by_path) {
    objects.push_back({.path = std::string(place.first),
                       .reason = std::string(incomplete_reason(StackClass::kUser, place.second)),
                       .samples = samples});
  }
  std::ranges::sort(objects, [](const Object& a, const Object& b) {
    return std::tie(b.samples, a.path, a.reason) < std::tie(a.samples, b.path, b.reason);
  });
  if (objects.size() > count) objects.resize(count);
  return objects;
}

std::size_t UnwindTally::PlaceHash::operator()(const Place& place) const noexcept {
  SeededHash hash(daemon_hash_seed());
  hash.add(place.file.inode);
  hash.add(place.file.size_bytes);
  hash.add(static_cast<std::uint64_t>(place.file.ctime_ns));
  hash.add(std::uint64_t{place.file.device} << 32 | place.file.generation);
  hash.add(std::uint64_t{place.user_end} | std::uint64_t{place.known} << 8 |
           static_cast<std::uint64_t>(place.kind) << 16);
  return hash.value();
}

}  // namespace profd
