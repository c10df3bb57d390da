#include "daemon/history/view.h"

#include <algorithm>
#include <memory>
#include <set>
#include <string_view>
#include <utility>

namespace profd {
namespace {

// Of pprof_builder.h.
constexpr std::string_view kKernelMapping = "[kernel.kallsyms]";
constexpr std::string_view kHiddenKernel = "[kernel]";

bool is_theirs(const Caller& caller, const WindowProfile& profile) {
  return profile.owner == ProcessOwner{.uid = caller.uid, .gid = caller.gid};
}

std::uint64_t samples_of(const std::vector<ProfileSummary>& profiles) {
  std::uint64_t sum = 0;
  for (const ProfileSummary& profile : profiles) sum += profile.samples;
  return sum;
}

void restrict_to(const Caller& caller, WindowView& view) {
  if (caller.privileged) return;
  std::vector<bool> keep;
  for (const WindowProfile& profile : view.profiles) keep.push_back(is_theirs(caller, profile));
  keep_profiles(view, keep);
}

std::vector<bool> kernel_locations(const PprofTables& tables) {
  std::vector<bool> is_kernel;
  is_kernel.reserve(tables.locations.size());
  for (const PprofTables::Location& location : tables.locations) {
    is_kernel.push_back(location.mapping != PprofLocation::kNoMapping &&
                        tables.texts[tables.mappings[location.mapping].file] == kKernelMapping);
  }
  return is_kernel;
}

std::uint32_t add_hidden_location(PprofTables& tables) {
  const auto end_of = [](const auto& table) { return static_cast<std::uint32_t>(table.size()); };
  const std::uint32_t name = end_of(tables.texts);
  tables.texts.push_back(kHiddenKernel);
  tables.functions.push_back({.name = name, .system_name = 0, .file = 0, .start_line = 0});
  tables.mappings.push_back({.file = name});
  tables.lines.push_back({.function = end_of(tables.functions) - 1, .line = 0});
  tables.locations.push_back({.mapping = end_of(tables.mappings) - 1,
                              .first_line = end_of(tables.lines) - 1,
                              .line_count = 1});
  return end_of(tables.locations) - 1;
}

}  // namespace

WindowView view_window(const WindowFile& file, const Caller& caller) {
  WindowView view{.start = file.record().start,
                  .end = file.record().end,
                  .summary = file.summary(),
                  .profiles = file.record().profiles};
  restrict_to(caller, view);
  return view;
}

PprofSelect select_for(const WindowView& view) {
  auto kept = std::make_shared<std::set<ProcessLabels>>();
  for (const WindowProfile& profile : view.profiles) kept->insert(profile.labels);
  return
      [kept = std::move(kept)](const PprofTables& tables, const std::vector<PprofLabel>& labels) {
        return kept->contains(labels_of(tables, labels));
      };
}

void hide_kernel(PprofTables& tables) {
  const std::vector<bool> is_kernel = kernel_locations(tables);
  if (std::ranges::find(is_kernel, true) == is_kernel.end()) return;
  const std::uint32_t hidden = add_hidden_location(tables);
  std::vector<std::uint32_t> frames;
  frames.reserve(tables.frames.size());
  for (PprofTables::Sample& sample : tables.samples) {
    const auto first = static_cast<std::uint32_t>(frames.size());
    for (const std::uint32_t frame : tables.frames_of(sample)) {
      if (!is_kernel[frame]) {
        frames.push_back(frame);
      } else if (frames.size() == first || frames.back() != hidden) {
        frames.push_back(hidden);
      }
    }
    sample.first_frame = first;
    sample.depth = static_cast<std::uint32_t>(frames.size()) - first;
  }
  tables.frames = std::move(frames);
}

Result<std::string> read_window_for(const Caller& caller, const std::string& windows_dir,
                                    const std::string& name) {
  if (caller.privileged) {
    Result<std::string> bytes = read_window_bytes(windows_dir, name);
    if (!bytes) return bytes.error();
    const Result<WindowHead> head = decode_window_head(*bytes);  // it was written by profd
    return head ? std::move(bytes) : head.error();
  }
  const Result<WindowFile> file = WindowFile::open(windows_dir, name);
  if (!file) return file.error();
  WindowView view = view_window(*file, caller);
  if (view.profiles.empty()) {
    return fail(ErrorCode::kNotFound, "no process of yours is in window " + name);
  }
  Result<PprofTables> tables = file->tables();
  if (!tables) return tables.error();
  hide_kernel(*tables);
  PprofMerge merge;
  if (auto added = merge.add(*tables, select_for(view)); !added) return added.error();
  WindowRecord record = file->record();
  record.profiles = std::move(view.profiles);
  record.named_files.clear();  // others' files, with their owners
  return encode_window(std::move(merge).take(), view.summary, record);
}

void keep_profiles(WindowView& view, const std::vector<bool>& keep) {
  std::size_t kept = 0;
  for (std::size_t i = 0; i < keep.size(); ++i) {
    if (!keep[i]) continue;
    if (kept != i) {
      view.summary.profiles[kept] = std::move(view.summary.profiles[i]);
      view.profiles[kept] = std::move(view.profiles[i]);
    }
    ++kept;
  }
  view.summary.profiles.resize(kept);
  view.profiles.resize(kept);
  const std::uint64_t samples = samples_of(view.summary.profiles);
  view.summary.ledger = {.taken = samples, .written = samples, .lost = {}};
  view.summary.blocks.reset();
}

}  // namespace profd
