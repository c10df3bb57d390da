#include "daemon/profiles/process_labels.h"

#include <algorithm>
#include <array>
#include <cctype>
#include <string_view>
#include <utility>
#include <vector>

#include "formats/base/json_members.h"
#include "formats/base/utf8_text.h"
#include "formats/base/whole_file.h"
#include "formats/interpreters/runtime.h"
#include "formats/proc/passwd.h"

namespace profd {
namespace {

constexpr std::size_t kFullIdDigits = 64;
constexpr std::size_t kShownIdDigits = 12;

std::string text_or_none(std::string_view text) {
  if (text.empty()) return kNoLabel;
  return printable_utf8(text, PprofProfile::kMaxTextBytes);
}

std::string container_label(const std::string& container) {
  const bool is_id = container.size() == kFullIdDigits &&
                     container.find_first_not_of("0123456789abcdef") == std::string::npos;
  return is_id ? container.substr(0, kShownIdDigits) : container;
}

std::string user_label(const ProcessImage& image, const UserNames& users) {
  if (!image.identified) return {};
  const auto known = users.find(image.uid);
  return known != users.end() ? known->second : "#" + std::to_string(image.uid);
}

// What interpreted its code, else by the names of its files: a program with an interpreter inside
// has any name.
std::string_view runtime_name_of(const ProcessSnapshot& process) {
  if (process.interpreted) {
    const auto kind = static_cast<std::uint8_t>(process.interpreted->kind());
    const std::string_view name = name_of_runtime(kind);
    if (!name.empty()) return name;
  }
  const Runtime* const runtime = runtime_of(*process.image);
  return runtime == nullptr ? std::string_view() : runtime->name;
}

// The member of a label; null: it is another one.
std::string* member_of(ProcessLabels& labels, std::string_view key) {
  if (key == "comm") return &labels.comm;
  if (key == "unit") return &labels.unit;
  if (key == "container") return &labels.container;
  if (key == "pod") return &labels.pod;
  if (key == "user") return &labels.user;
  return key == "runtime" ? &labels.runtime : nullptr;
}

template <class Text>
ProcessLabels read_labels(std::span<const PprofLabel> from, const Text& text) {
  ProcessLabels labels;
  for (const PprofLabel& label : from) {
    const std::string_view key = text(label.key);
    if (std::string* const member = member_of(labels, key)) *member = text(label.text);
    if (key == "pid") labels.pid = static_cast<std::uint32_t>(label.number);
  }
  return labels;
}

}  // namespace

boost::json::value json_of(const ProcessLabels& labels) {
  boost::json::object object;
  if (labels.pid != 0) object.emplace("pid", labels.pid);
  const auto add = [&object](const char* key, const std::string& value) {
    if (value != kNoLabel) object.emplace(key, value);
  };
  add("comm", labels.comm);
  add("unit", labels.unit);
  add("container", labels.container);
  add("pod", labels.pod);
  add("user", labels.user);
  add("runtime", labels.runtime);
  return object;
}

Result<void> read_json(const boost::json::value& value, ProcessLabels& out) {
  return JsonReader(value)
      .optional("pid", out.pid)
      .optional("comm", out.comm)
      .optional("unit", out.unit)
      .optional("container", out.container)
      .optional("pod", out.pod)
      .optional("user", out.user)
      .optional("runtime", out.runtime)
      .finish();
}

ProcessLabels labels_of(const PprofTables& tables, std::span<const PprofLabel> labels) {
  return read_labels(labels, [&tables](std::uint32_t index) { return tables.texts[index]; });
}

ProcessLabels labels_of(const PprofProfile& profile, std::uint32_t label_set) {
  return read_labels(profile.labels(label_set),
                     [&profile](std::uint32_t index) { return profile.text(index); });
}

// The first by name, since the mappings have no order.
const Runtime* runtime_of(const ProcessImage& image) {
  const Runtime* first = nullptr;
  for (const auto& [id, mapping] : image.mappings) {
    const Runtime* runtime = mapping.file ? runtime_of_file(path_of(mapping)) : nullptr;
    if (runtime == nullptr) continue;
    if (first == nullptr || runtime->name < first->name) first = runtime;
  }
  return first;
}

UserNames read_user_names() {
  const Result<std::string> text = read_whole_file("/etc/passwd");
  return text ? parse_user_names(*text) : UserNames();
}

std::string folded_unit(const std::string& unit) {
  for (const std::string_view start : {"session-", "run-"}) {
    const std::size_t dot = unit.rfind('.');
    if (!unit.starts_with(start) || dot == std::string::npos) continue;
    const std::string_view number = std::string_view(unit).substr(start.size(), dot - start.size());
    const bool is_number = std::ranges::any_of(
        number, [](char c) { return std::isdigit(static_cast<unsigned char>(c)) != 0; });
    if (is_number) return std::string(start) + "#" + unit.substr(dot);
  }
  return unit;
}

ProcessLabels labels_of(std::uint32_t pid, const std::string& comm, const CgroupOwner& owner) {
  ProcessLabels labels;
  labels.pid = pid;
  labels.comm = text_or_none(comm);
  labels.unit = text_or_none(folded_unit(owner.unit.value_or("")));
  labels.container = text_or_none(container_label(owner.container.value_or("")));
  return labels;
}

ProcessLabels labels_of(const ProcessSnapshot& process, const UserNames& users,
                        PodDirectory* pods) {
  const ProcessImage& image = *process.image;
  ProcessLabels labels = labels_of(process.key.tgid, image.comm, owner_of_cgroup(image.cgroup));
  if (pods != nullptr) labels.pod = text_or_none(pods->pod_of(pod_uid_of_cgroup(image.cgroup)));
  labels.user = text_or_none(user_label(image, users));
  labels.runtime = text_or_none(runtime_label(runtime_name_of(process)));
  return labels;
}

std::uint32_t add_labels(PprofProfile& profile, const ProcessLabels& labels,
                         std::string_view thread, std::span<const PprofLabel> more) {
  const auto text = [&profile](std::string_view key, std::string_view value) {
    return PprofLabel{.key = profile.add_text(key), .text = profile.add_text(value)};
  };
  std::vector<PprofLabel> set{{.key = profile.add_text("pid"), .number = labels.pid},
                              text("comm", labels.comm),
                              text("unit", labels.unit),
                              text("container", labels.container),
                              text("pod", labels.pod),
                              text("user", labels.user),
                              text("runtime", labels.runtime)};
  if (!thread.empty()) set.push_back(text("thread", thread));
  set.insert(set.end(), more.begin(), more.end());
  return profile.add_labels(std::move(set));
}

}  // namespace profd
