#include "ctl/ship/windows/window_split.h"

#include <algorithm>
#include <cctype>
#include <optional>
#include <set>
#include <span>
#include <string_view>
#include <utility>

#include <boost/json/array.hpp>
#include <boost/json/object.hpp>

#include "formats/base/json_members.h"
#include "formats/base/json_text.h"
#include "formats/base/utf8_text.h"

namespace profd {
namespace {

constexpr std::string_view kNoLabelText = "-";
constexpr std::string_view kCgroupKey = "cgroup";
constexpr std::string_view kKernelFile = "[kernel";
// The outermost function of each kernel thread; that of newer kernels ends in "_asm".
constexpr std::string_view kThreadEntry = "ret_from_fork";

std::int64_t pid_of(const PprofTables& window, std::span<const PprofLabel> labels) {
  for (const PprofLabel& label : labels) {
    if (window.texts[label.key] == "pid") return label.number;
  }
  return 0;
}

// By pid, from what profd alone writes into a window. Empty if it is not there.
using CgroupsByPid = std::map<std::int64_t, std::string>;

void add_cgroup(const boost::json::value& process, CgroupsByPid& cgroups) {
  const auto* const members = process.if_object();
  const auto* const cgroup = members == nullptr ? nullptr : members->if_contains("cgroup");
  const auto* const labels = members == nullptr ? nullptr : members->if_contains("labels");
  if (cgroup == nullptr || !cgroup->is_string()) return;
  if (labels == nullptr || !labels->is_object()) return;
  const auto* const pid = labels->get_object().if_contains("pid");
  if (pid == nullptr || !pid->is_int64()) return;
  cgroups.emplace(pid->get_int64(), std::string_view(cgroup->get_string()));
}

CgroupsByPid cgroups_of(const PprofTables& window) {
  CgroupsByPid cgroups;
  const auto own = parse_json(window.own_data, kMaxJsonDepth);
  const auto* const file = own ? own->if_object() : nullptr;
  const auto* const record = file == nullptr ? nullptr : file->if_contains("window");
  if (record == nullptr || !record->is_object()) return cgroups;
  const auto* const processes = record->get_object().if_contains("profiles");
  if (processes == nullptr || !processes->is_array()) return cgroups;
  for (const boost::json::value& process : processes->get_array()) add_cgroup(process, cgroups);
  return cgroups;
}

// The pod's label is "namespace/name".
void split_pod(ProcessLabelTexts& texts) {
  const auto pod = texts.find("pod");
  if (pod == texts.end()) return;
  const std::size_t slash = pod->second.find('/');
  if (slash == std::string::npos) return;
  texts["namespace"] = pod->second.substr(0, slash);
  pod->second.erase(0, slash + 1);
}

ProcessLabelTexts label_texts(const PprofTables& window, std::span<const PprofLabel> labels) {
  ProcessLabelTexts texts;
  for (const PprofLabel& label : labels) {
    const std::string_view key = window.texts[label.key];
    const std::string_view text = window.texts[label.text];
    if (text.empty() || text == kNoLabelText) continue;
    if (std::ranges::find(service_keys(), key) == service_keys().end()) continue;
    texts.emplace(key, valid_utf8(text, PprofProfile::kMaxTextBytes));
  }
  split_pod(texts);
  return texts;
}

// Whether a stack begins where kernel threads do. A user's process has such a stack only of its
// first moments, between fork and its return to user mode.
bool begins_in_kernel_thread(const PprofTables& window, const PprofTables::Sample& sample) {
  if (sample.depth == 0) return false;
  const PprofTables::Location& root = window.locations[window.frames_of(sample).back()];
  if (root.mapping == PprofLocation::kNoMapping || root.line_count == 0) return false;
  const std::string_view file = window.texts[window.mappings[root.mapping].file];
  const PprofFunction& entry = window.functions[window.lines_of(root).back().function];
  return file.starts_with(kKernelFile) && window.texts[entry.name].starts_with(kThreadEntry);
}

// Samples of a run with equal labels, which are those of one process, or of one thread of it.
struct SampleRun {
  std::uint32_t first = 0;
  std::uint32_t end = 0;
};

std::vector<SampleRun> runs_of(const PprofTables& window) {
  std::vector<SampleRun> runs;
  for (std::uint32_t i = 0; i < window.samples.size(); ++i) {
    if (i == 0 || !window.have_equal_labels(window.samples[i - 1], window.samples[i])) {
      runs.push_back({i, i});
    }
    runs.back().end = i + 1;
  }
  return runs;
}

// The processes with a stack that no kernel thread has. The pid 0 stands for many.
std::set<std::int64_t> user_processes(const PprofTables& window,
                                      const std::vector<SampleRun>& runs) {
  std::set<std::int64_t> pids{0};
  for (const SampleRun& run : runs) {
    const auto samples = std::span(window.samples).subspan(run.first, run.end - run.first);
    const bool is_kernel = std::ranges::all_of(
        samples, [&window](const auto& sample) { return begins_in_kernel_thread(window, sample); });
    if (!is_kernel) pids.insert(pid_of(window, window.labels_of(samples.front())));
  }
  return pids;
}

// The __name__ of a series: "process_cpu" for CPU time, else the type of the last value with "_"
// for what engines do not accept.
std::string series_name(const PprofTables& window) {
  if (window.sample_types.empty()) return "profile";
  const PprofTables::ValueType& type = window.sample_types.back();
  std::string name(window.texts[type.type]);
  if (name == "cpu" && window.texts[type.unit] == "nanoseconds") return "process_cpu";
  std::ranges::replace_if(
      name, [](unsigned char c) { return std::isalnum(c) == 0; }, '_');
  return name.empty() ? "profile" : name;
}

SeriesLabels series_of(const Service& service, const PprofTables& window,
                       const SplitOptions& options) {
  SeriesLabels labels;
  for (const auto& [name, text] : service.labels) labels.emplace(name, text);
  labels[kServiceLabel] = service.name;
  if (!options.host.empty()) labels["host"] = options.host;
  labels["__name__"] = series_name(window);
  return labels;
}

using PartsByLabels = std::map<SeriesLabels, std::vector<std::uint32_t>>;

using CountsOfServices = std::map<std::string, std::size_t>;

// The highest count first.
std::vector<std::pair<std::size_t, std::string>> highest_first(const CountsOfServices& counts) {
  std::vector<std::pair<std::size_t, std::string>> sorted;
  sorted.reserve(counts.size());
  for (const auto& [name, count] : counts) sorted.emplace_back(count, name);
  std::ranges::stable_sort(sorted, std::ranges::greater(),
                           &std::pair<std::size_t, std::string>::first);
  return sorted;
}

// By service, the name of the series that gets its samples.
using JoinedServices = std::map<std::string, std::string>;

// Each of these series has no labels of processes.
void join_series(PartsByLabels& parts, const JoinedServices& names, const PprofTables& window,
                 const SplitOptions& options) {
  std::map<std::string, std::vector<std::uint32_t>> joined;
  for (auto part = parts.begin(); part != parts.end();) {
    const auto name = names.find(part->first.at(kServiceLabel));
    if (name == names.end()) {
      ++part;
      continue;
    }
    std::vector<std::uint32_t>& samples = joined[name->second];
    samples.insert(samples.end(), part->second.begin(), part->second.end());
    part = parts.erase(part);
  }
  for (const auto& [name, samples] : joined) {
    std::vector<std::uint32_t>& series =
        parts[series_of({.name = name, .labels = {}}, window, options)];
    series.insert(series.end(), samples.begin(), samples.end());
    std::ranges::sort(series);
  }
}

// Those with the fewest rows become "other". Returns how many.
std::uint64_t limit_services(PartsByLabels& parts, const PprofTables& window,
                             const SplitOptions& options) {
  CountsOfServices rows;
  for (const auto& [labels, samples] : parts) rows[labels.at(kServiceLabel)] += samples.size();
  if (rows.size() <= options.max_services) return 0;
  JoinedServices over;
  const auto services = highest_first(rows);
  for (std::size_t i = options.max_services; i < services.size(); ++i) {
    over.emplace(services[i].second, kOtherServices);
  }
  join_series(parts, over, window, options);
  return over.size();
}

// The services of the most series become one series each. Returns how many series these were.
std::uint64_t limit_series(PartsByLabels& parts, const PprofTables& window,
                           const SplitOptions& options) {
  // Most services have one series, and some have one for each user or runtime.
  constexpr std::size_t kSeriesOfService = 2;
  const std::size_t most = options.max_services * kSeriesOfService;
  std::size_t left = parts.size();
  if (left <= most) return 0;
  CountsOfServices series;
  for (const auto& [labels, samples] : parts) ++series[labels.at(kServiceLabel)];
  JoinedServices joined;
  std::uint64_t count = 0;
  for (const auto& [of_service, name] : highest_first(series)) {
    if (left <= most) break;
    joined.emplace(name, name);
    left -= of_service - 1;
    count += of_service;
  }
  join_series(parts, joined, window, options);
  return count;
}

bool keep_thread(const PprofTables& window, std::vector<PprofLabel>& labels) {
  std::erase_if(labels,
                [&window](const PprofLabel& label) { return window.texts[label.key] != "thread"; });
  return true;
}

bool drop_labels(const PprofTables&, std::vector<PprofLabel>& labels) {
  labels.clear();
  return true;
}

}  // namespace

WindowParts split_window(const PprofTables& window, const SplitOptions& options) {
  WindowParts split;
  PartsByLabels parts;
  const std::vector<SampleRun> runs = runs_of(window);
  const std::set<std::int64_t> users = user_processes(window, runs);
  const CgroupsByPid cgroups =
      needs_key(options.rules, kCgroupKey) ? cgroups_of(window) : CgroupsByPid();
  for (const SampleRun& run : runs) {
    const auto labels = window.labels_of(window.samples[run.first]);
    const std::int64_t pid = pid_of(window, labels);
    const bool is_kernel = !users.contains(pid);
    ProcessLabelTexts texts = label_texts(window, labels);
    if (const auto cgroup = cgroups.find(pid); cgroup != cgroups.end()) {
      texts.emplace(kCgroupKey, valid_utf8(cgroup->second, PprofProfile::kMaxTextBytes));
    }
    const auto service = service_of(texts, is_kernel, options.rules);
    if (!service) {
      split.samples_dropped += run.end - run.first;
      continue;
    }
    std::vector<std::uint32_t>& part = parts[series_of(*service, window, options)];
    for (std::uint32_t i = run.first; i < run.end; ++i) part.push_back(i);
  }
  split.services_over_limit = limit_services(parts, window, options);
  split.series_joined = limit_series(parts, window, options);
  split.parts.reserve(parts.size());
  for (auto& [labels, samples] : parts) {
    split.parts.push_back({.labels = labels, .samples = std::move(samples)});
  }
  return split;
}

PprofProfile profile_of_part(PprofParts& window, const ServicePart& part, ThreadLabels threads) {
  const bool has_threads = threads == ThreadLabels::kKept;
  PprofProfile profile = window.profile_of(part.samples, has_threads ? keep_thread : drop_labels);
  profile.time_ns = sum_within_limits(profile.time_ns, part.first);
  return profile;
}

ServicePart take_half(ServicePart& part) {
  const std::size_t kept = part.samples.size() / 2;
  const auto middle = part.samples.begin() + static_cast<std::ptrdiff_t>(kept);
  ServicePart half{.labels = part.labels,
                   .samples = {middle, part.samples.end()},
                   .first = part.first + static_cast<std::uint32_t>(kept)};
  part.samples.erase(middle, part.samples.end());
  return half;
}

}  // namespace profd
