#include "ctl/views/group_key.h"

#include <algorithm>
#include <functional>
#include <map>
#include <utility>

#include "formats/base/errors.h"

namespace profd {
namespace {

constexpr std::array<std::string_view, kGroupKeys> kKeyNames = {
    "process", "command", "unit", "container", "user", "thread",
    "runtime", "state",   "wait", "file",      "line", "function"};

constexpr std::uint32_t kNoGroup = 0xffffffff;

constexpr const char* kKeysHint =
    "give one or two of process, command, unit, container, user, thread, runtime, state, wait, "
    "file, line and function";

std::string text_or(std::string_view text, const char* otherwise) {
  return text.empty() ? otherwise : std::string(text);
}

std::string process_name(const Samples& samples, const SampleLabels& labels) {
  std::string name = text_or(samples.text(labels.comm), "(unknown process)");
  if (labels.pid != 0) name += " " + std::to_string(labels.pid);
  return name;
}

std::string thread_name(const Samples& samples, const SampleLabels& labels) {
  const std::string_view name = samples.text(labels.thread);
  if (labels.tid == 0) return text_or(name, "(unknown thread)");
  return (name.empty() ? std::string() : std::string(name) + " ") + std::to_string(labels.tid);
}

std::string label_name(const Samples& samples, const SampleLabels& labels, GroupKey key) {
  switch (key) {
    case GroupKey::kProcess:
      return process_name(samples, labels);
    case GroupKey::kCommand:
      return text_or(samples.text(labels.comm), "(unknown command)");
    case GroupKey::kUnit:
      return text_or(samples.text(labels.unit), "(no unit)");
    case GroupKey::kContainer:
      return text_or(samples.text(labels.container), "(no container)");
    case GroupKey::kUser:
      return text_or(samples.text(labels.user), "(unknown user)");
    case GroupKey::kThread:
      return thread_name(samples, labels);
    case GroupKey::kRuntime:
      return text_or(samples.text(labels.runtime), "native");
    case GroupKey::kState:
      return text_or(samples.text(labels.state), "(no state)");
    case GroupKey::kWait:
      return text_or(samples.text(labels.wait), "(no wait)");
    default:
      return {};
  }
}

std::string file_name(const Samples& samples, const SampledFunction& function) {
  const std::string_view file = samples.text(function.file);
  if (!file.empty()) return std::string(file);
  const std::string_view object = base_name(samples.text(function.object));
  if (object.empty()) return "(unknown file)";
  return object.starts_with('[') ? std::string(object) : "[" + std::string(object) + "]";
}

// The names of frames. To shorten a name takes some microseconds, and many frames have the same.
class FrameNames {
 public:
  FrameNames(const Samples& samples, NameForm form)
      : samples_(samples), form_(form), names_(samples.text_count()) {}

  [[nodiscard]] std::string of(const SampledFrame& frame, GroupKey key) {
    const SampledFunction& function = samples_.functions()[frame.function];
    if (key == GroupKey::kFile) return file_name(samples_, function);
    if (key == GroupKey::kFunction) return of_function(function.name);
    std::string name = of_function(function.name) + " " + file_name(samples_, function);
    return frame.line == 0 ? name : name + ":" + std::to_string(frame.line);
  }

 private:
  const std::string& of_function(std::uint32_t text) {
    std::string& name = names_[text];
    if (name.empty()) name = shown_name(samples_.text(text));
    return name;
  }

  [[nodiscard]] std::string shown_name(std::string_view name) const {
    if (name.empty()) return "[unknown]";
    return form_ == NameForm::kFull ? std::string(name) : short_name(name);
  }

  const Samples& samples_;
  NameForm form_;
  std::vector<std::string> names_;  // by number of the text; empty: not made yet
};

// Gives each value of the keys a number, in the order in which they come.
class GroupNumbers {
 public:
  explicit GroupNumbers(GroupTable& table) : table_(table) {}

  // `names`: one for each key. The last group is described by `describe` when it is new.
  template <class Describe>
  void add(const std::vector<std::string>& names, const Describe& describe) {
    std::uint32_t parent = 0;
    for (std::size_t level = 0; level < names.size(); ++level) {
      auto& numbers = numbers_[level];
      const auto number = static_cast<std::uint32_t>(numbers.size());
      const auto [known, added] = numbers.try_emplace({parent, names[level]}, number);
      if (added && level + 1 == names.size()) {
        Group group{.name = names[level], .object = {}, .parent = parent};
        describe(group);
        table_.groups.push_back(std::move(group));
      }
      parent = known->second;
    }
    table_.of.push_back(parent);
  }

 private:
  GroupTable& table_;
  std::array<std::map<std::pair<std::uint32_t, std::string>, std::uint32_t>, 2> numbers_;
};

}  // namespace

std::string_view name_of(GroupKey key) { return kKeyNames.at(static_cast<std::size_t>(key)); }

bool is_of_frames(GroupKey key) { return key >= GroupKey::kFile; }
bool has_object(GroupKey key) { return key >= GroupKey::kLine; }

void ObjectOfFrames::add(const Samples& samples, std::uint32_t frame) {
  const std::uint32_t object = samples.functions()[samples.frames()[frame].function].object;
  if (object_ == kNone) object_ = object;
  if (object_ != object) object_ = kManyObjects;
}

std::string ObjectOfFrames::text(const Samples& samples) const {
  if (object_ == kNone) return {};
  return std::string(object_ == kManyObjects ? kSeveral : samples.text(object_));
}

std::string_view base_name(std::string_view path) {
  const std::size_t slash = path.rfind('/');
  return slash == std::string_view::npos || slash + 1 == path.size() ? path
                                                                     : path.substr(slash + 1);
}

Result<std::vector<GroupKey>> parse_group_keys(const std::string& text) {
  std::vector<GroupKey> keys;
  for (std::size_t at = 0; at <= text.size();) {
    const std::size_t end = std::min(text.find(',', at), text.size());
    const std::string name = text.substr(at, end - at);
    const auto* const known = std::ranges::find(kKeyNames, name);
    if (known == kKeyNames.end()) {
      return invalid_argument("invalid --by '" + name.substr(0, 64) + "'", kKeysHint);
    }
    const auto key = static_cast<GroupKey>(known - kKeyNames.begin());
    if (std::ranges::find(keys, key) != keys.end() || keys.size() == 2) {
      return invalid_argument("--by takes one or two different keys", kKeysHint);
    }
    keys.push_back(key);
    at = end + 1;
  }
  return keys;
}

GroupTable group_labels(const Samples& samples, const std::vector<GroupKey>& keys) {
  if (keys.empty()) return {.groups = {Group()}, .of = {}};
  GroupTable table;
  GroupNumbers numbers(table);
  for (const SampleLabels& labels : samples.labels()) {
    std::vector<std::string> names;
    names.reserve(keys.size());
    for (const GroupKey key : keys) names.push_back(label_name(samples, labels, key));
    numbers.add(names, [](Group&) {});
  }
  return table;
}

GroupTable group_frames(const Samples& samples, const std::vector<GroupKey>& keys, NameForm names) {
  if (keys.empty()) return {.groups = {Group()}, .of = {}};
  GroupTable table;
  GroupNumbers numbers(table);
  FrameNames shown(samples, names);
  const bool has_lines = std::ranges::find(keys, GroupKey::kLine) != keys.end();
  std::vector<std::uint32_t> of_function(samples.functions().size(), kNoGroup);
  for (const SampledFrame& frame : samples.frames()) {
    std::uint32_t& known = of_function[frame.function];
    if (known != kNoGroup && !has_lines) {
      table.of.push_back(known);
      continue;
    }
    std::vector<std::string> values;
    values.reserve(keys.size());
    for (const GroupKey key : keys) values.push_back(shown.of(frame, key));
    const FrameKind kind = samples.functions()[frame.function].kind;
    numbers.add(values, [&](Group& group) { group.kind = kind; });
    known = table.of.back();
  }
  return table;
}

}  // namespace profd
