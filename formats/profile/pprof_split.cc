#include "formats/profile/pprof_split.h"

#include <map>
#include <span>
#include <string_view>
#include <utility>

#include "formats/base/errors.h"
#include "formats/profile/pprof_merge.h"

namespace profd {
namespace {

constexpr std::string_view kNoValue = "-";

const PprofLabel* find_label(const PprofTables& tables, std::span<const PprofLabel> labels,
                             std::string_view key) {
  for (const PprofLabel& label : labels) {
    if (tables.texts[label.key] == key) return &label;
  }
  return nullptr;
}

std::string text_of(const PprofTables& tables, std::span<const PprofLabel> labels,
                    const std::string& key) {
  const PprofLabel* const label = find_label(tables, labels, key);
  const std::string_view text = label == nullptr ? kNoValue : tables.texts[label->text];
  return text.empty() || text == kNoValue ? "no-" + key : std::string(text);
}

std::string part_name(const PprofTables& tables, std::span<const PprofLabel> labels,
                      PprofSplitKey key) {
  if (key == PprofSplitKey::kUnit) return text_of(tables, labels, "unit");
  if (key == PprofSplitKey::kContainer) return text_of(tables, labels, "container");
  std::string name = text_of(tables, labels, "comm");
  const PprofLabel* const pid = find_label(tables, labels, "pid");
  if (pid != nullptr && pid->number != 0) name += "." + std::to_string(pid->number);
  return name;
}

}  // namespace

Result<PprofSplitKey> parse_split_key(const std::string& name) {
  if (name == "process") return PprofSplitKey::kProcess;
  if (name == "unit") return PprofSplitKey::kUnit;
  if (name == "container") return PprofSplitKey::kContainer;
  return invalid_argument("a profile can't be split by '" + name + "'",
                          "give process, unit or container");
}

std::vector<PprofPart> split_pprof(const PprofTables& tables, PprofSplitKey key) {
  std::map<std::string, std::vector<std::uint32_t>> samples_by_name;
  std::vector<std::uint32_t>* samples = nullptr;  // of the part of the sample before
  for (std::uint32_t i = 0; i < tables.samples.size(); ++i) {
    if (samples == nullptr || !tables.have_equal_labels(tables.samples[i - 1], tables.samples[i])) {
      samples = &samples_by_name[part_name(tables, tables.labels_of(tables.samples[i]), key)];
    }
    samples->push_back(i);
  }
  PprofParts parts_of_tables(tables);
  std::vector<PprofPart> parts;
  parts.reserve(samples_by_name.size());
  for (const auto& [name, part] : samples_by_name) {
    parts.push_back({name, parts_of_tables.profile_of(part)});
  }
  return parts;
}

}  // namespace profd
