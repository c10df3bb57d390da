#include "formats/profile/stack_texts.h"

#include <algorithm>
#include <map>
#include <optional>
#include <string_view>
#include <utility>
#include <vector>

#include <boost/json/array.hpp>
#include <boost/json/object.hpp>
#include <boost/json/serialize.hpp>

#include "formats/profile/block_names.h"

namespace profd {
namespace {

constexpr std::int64_t kNsOfFoldedCount = 1000;

bool is_control(char c) { return static_cast<unsigned char>(c) < ' ' || c == 0x7f; }

std::string folded_name(std::string_view name) {
  std::string folded(name);
  std::ranges::replace(folded, ';', ':');
  std::ranges::replace_if(folded, is_control, '?');
  return folded;
}

// The text of a label; empty: the sample has none.
std::string_view label_of(const PprofProfile& profile, const PprofSample& sample,
                          std::string_view key) {
  for (const PprofLabel& label : profile.labels(sample.labels)) {
    if (profile.text(label.key) == key) return profile.text(label.text);
  }
  return {};
}

std::int64_t pid_of(const PprofProfile& profile, const PprofSample& sample) {
  for (const PprofLabel& label : profile.labels(sample.labels)) {
    if (profile.text(label.key) == "pid") return label.number;
  }
  return 0;
}

// Labels by which the samples of one process differ.
bool is_within_process(std::string_view key) {
  return key == "thread" || key == kStateLabel || key == kWaitLabel || key == kOngoingLabel;
}

// All other labels: a pid can be that of two processes, one after the other.
using ProcessId = std::vector<PprofLabel>;

ProcessId process_of(const PprofProfile& profile, const PprofSample& sample) {
  ProcessId id;
  for (const PprofLabel& label : profile.labels(sample.labels)) {
    if (!is_within_process(profile.text(label.key))) id.push_back(label);
  }
  return id;
}

// Calls `visit` with the lines of a stack, the outermost first.
template <class Visit>
void for_each_line(const PprofProfile& profile, const PprofSample& sample, const Visit& visit) {
  const auto stack = profile.stack(sample.stack);
  for (auto location = stack.rbegin(); location != stack.rend(); ++location) {
    const auto lines = profile.lines(profile.locations()[*location].lines);
    for (auto line = lines.rbegin(); line != lines.rend(); ++line) visit(*line);
  }
}

std::size_t default_value_of(const PprofProfile& profile) {
  const auto types = profile.sample_types();
  const auto found = std::ranges::find(types, profile.default_sample_type, &PprofValueType::type);
  return found == types.end() ? types.size() - 1 : static_cast<std::size_t>(found - types.begin());
}

// Then the last value is the time, in nanoseconds, and the number of blocks says little.
bool has_block_times(const PprofProfile& profile) {
  if (profile.sample_types().empty()) return false;
  const PprofValueType& last = profile.sample_types().back();
  return last.unit == "nanoseconds" &&
         (last.type == kOffCpuType || last.type == kRunnableType || last.type == kWallType);
}

// A line has whole microseconds of a time: what is left of one counts in the next line.
std::string lines_of_times(const std::map<std::string, std::int64_t>& ns_by_stack) {
  std::string text;
  std::int64_t rest_ns = 0;
  for (const auto& [stack, ns] : ns_by_stack) {
    rest_ns += ns % kNsOfFoldedCount;
    const std::int64_t us = ns / kNsOfFoldedCount + rest_ns / kNsOfFoldedCount;
    rest_ns %= kNsOfFoldedCount;
    if (us != 0) text += stack + ' ' + std::to_string(us) + '\n';
  }
  return text;
}

// The profile of one process in a speedscope file.
struct ProcessStacks {
  std::string name;
  boost::json::array samples;
  boost::json::array weights;
  std::int64_t sum = 0;
};

class SpeedscopeWriter {
 public:
  explicit SpeedscopeWriter(const PprofProfile& profile)
      : profile_(profile), value_(default_value_of(profile)) {}

  std::string write(const std::string& name) {
    const auto samples = profile_.samples();
    for (std::size_t i = 0; i < samples.size(); ++i) add(samples[i], profile_.values(i)[value_]);
    boost::json::object file;
    file["$schema"] = "https://www.speedscope.app/file-format-schema.json";
    file["exporter"] = "profd";
    file["name"] = name;
    file["shared"] = boost::json::object{{"frames", std::move(frames_)}};
    file["profiles"] = profiles();
    return boost::json::serialize(file) + "\n";
  }

 private:
  void add(const PprofSample& sample, std::int64_t value) {
    const auto [process, added] = processes_.try_emplace(process_of(profile_, sample));
    if (added) {
      process->second.name = std::string(label_of(profile_, sample, "comm")) + " (" +
                             std::to_string(pid_of(profile_, sample)) + ")";
    }
    boost::json::array stack;
    if (const auto thread = label_of(profile_, sample, "thread"); !thread.empty()) {
      stack.push_back(frame_of_thread(thread));
    }
    for_each_line(profile_, sample,
                  [&](const PprofLine& line) { stack.push_back(frame_of(line)); });
    process->second.samples.push_back(std::move(stack));
    process->second.weights.push_back(value);
    process->second.sum = sum_within_limits(process->second.sum, value);
  }

  std::size_t frame_of(const PprofLine& line) {
    const auto [known, added] = index_.try_emplace({line.function, line.line}, frames_.size());
    if (!added) return known->second;
    const PprofFunction& function = profile_.functions()[line.function];
    boost::json::object frame{{"name", profile_.text(function.name)}};
    if (function.file != 0) frame["file"] = profile_.text(function.file);
    if (line.line != 0) frame["line"] = line.line;
    frames_.push_back(std::move(frame));
    return known->second;
  }

  std::size_t frame_of_thread(std::string_view thread) {
    const auto [known, added] = threads_.try_emplace(thread, frames_.size());
    if (added) frames_.push_back(boost::json::object{{"name", thread}});
    return known->second;
  }

  boost::json::array profiles() {
    std::vector<ProcessStacks*> by_sum;
    for (auto& [id, process] : processes_) by_sum.push_back(&process);
    std::ranges::stable_sort(by_sum, std::ranges::greater(), &ProcessStacks::sum);
    boost::json::array profiles;
    for (ProcessStacks* process : by_sum) {
      profiles.push_back(boost::json::object{{"type", "sampled"},
                                             {"name", process->name},
                                             {"unit", unit()},
                                             {"startValue", 0},
                                             {"endValue", process->sum},
                                             {"samples", std::move(process->samples)},
                                             {"weights", std::move(process->weights)}});
    }
    return profiles;
  }

  [[nodiscard]] std::string_view unit() const {
    return profile_.sample_types()[value_].unit == "nanoseconds" ? "nanoseconds" : "none";
  }

  const PprofProfile& profile_;
  std::size_t value_;
  boost::json::array frames_;
  std::map<std::pair<std::uint32_t, std::int64_t>, std::size_t> index_;  // by function and line
  std::map<std::string_view, std::size_t> threads_;                      // their frames
  std::map<ProcessId, ProcessStacks> processes_;
};

}  // namespace

std::string folded_stacks(const PprofProfile& profile) {
  std::map<std::string, std::int64_t> stacks;
  const bool has_times = has_block_times(profile);
  const auto samples = profile.samples();
  for (std::size_t i = 0; i < samples.size(); ++i) {
    std::string stack = folded_name(label_of(profile, samples[i], "comm"));
    const auto add_frame = [&stack](std::string_view name) {
      if (!stack.empty()) stack += ';';
      stack += folded_name(name);
    };
    if (const auto thread = label_of(profile, samples[i], "thread"); !thread.empty()) {
      add_frame(thread);
    }
    for_each_line(profile, samples[i], [&](const PprofLine& line) {
      add_frame(profile.text(profile.functions()[line.function].name));
    });
    std::int64_t& count = stacks[stack];
    const auto values = profile.values(i);
    count = sum_within_limits(count, has_times ? values.back() : values.front());
  }
  if (has_times) return lines_of_times(stacks);
  std::string text;
  for (const auto& [stack, count] : stacks) text += stack + ' ' + std::to_string(count) + '\n';
  return text;
}

std::string speedscope_json(const PprofProfile& profile, const std::string& name) {
  return SpeedscopeWriter(profile).write(name);
}

}  // namespace profd
