#include "ctl/sources/unnamed_code.h"

#include <cstdint>
#include <string_view>
#include <vector>

namespace profd {
namespace {

enum class NamelessKind : std::uint8_t { kHasName, kFile, kRuntime, kInterpreted, kOther };

NamelessKind nameless_kind_of(const Samples& samples, const SampledFunction& function) {
  const std::string_view name = samples.text(function.name);
  if (!name.empty() && !name.starts_with('[')) return NamelessKind::kHasName;
  if (function.kind == FrameKind::kRuntime) return NamelessKind::kRuntime;
  if (function.kind == FrameKind::kInterpreted) return NamelessKind::kInterpreted;
  const bool is_file = samples.text(function.object).starts_with('/');
  return function.kind == FrameKind::kNative && is_file ? NamelessKind::kFile
                                                        : NamelessKind::kOther;
}

// Null: there is no stack.
const SampledFrame* leaf_of(const Samples& samples, const Samples::Row& row) {
  std::string_view stack = row.encoded();
  while (!stack.empty()) {
    const auto frames = samples.frames_of_location(take_location(stack));
    if (!frames.empty()) return &samples.frames()[frames.front()];
  }
  return nullptr;
}

}  // namespace

UnnamedCode count_unnamed_code(const Samples& samples) {
  std::vector<NamelessKind> kinds;  // by function: there are far fewer than samples
  kinds.reserve(samples.functions().size());
  for (const SampledFunction& function : samples.functions()) {
    kinds.push_back(nameless_kind_of(samples, function));
  }
  UnnamedCode unnamed;
  for (const Samples::Row& row : samples.rows()) {
    const SampledFrame* const leaf = leaf_of(samples, row);
    if (leaf == nullptr || kinds[leaf->function] == NamelessKind::kHasName) continue;
    unnamed.all.add(row.value);
    if (kinds[leaf->function] == NamelessKind::kFile) unnamed.of_files.add(row.value);
    if (kinds[leaf->function] == NamelessKind::kRuntime) unnamed.of_runtimes.add(row.value);
    if (kinds[leaf->function] == NamelessKind::kInterpreted) unnamed.of_interpreters.add(row.value);
  }
  return unnamed;
}

}  // namespace profd
