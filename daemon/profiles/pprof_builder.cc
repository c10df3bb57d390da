#include "daemon/profiles/pprof_builder.h"

#include <elf.h>

#include <algorithm>
#include <array>
#include <map>
#include <optional>
#include <span>
#include <string_view>
#include <utility>
#include <vector>

#include <boost/unordered/unordered_flat_map.hpp>

#include "collectors/files/debug_files.h"
#include "daemon/profiles/jit_code.h"
#include "daemon/profiles/profile_files.h"
#include "daemon/samples/stack_table.h"
#include "formats/base/utf8_text.h"

namespace profd {
namespace {

constexpr std::uint64_t kPageBytes = 4096;
constexpr std::int64_t kNanosecondsPerMicrosecond = 1000;

// A location of the profile, and where its name comes from.
struct NamedLocation {
  std::uint32_t index = 0;
  NameSource source = NameSource::kGap;
};

using Locations = boost::unordered_flat_map<std::uint64_t, NamedLocation>;

// A file in the profile.
struct ProfiledFile {
  HitFile hit;
  NamedFile named{};
  std::uint32_t mapping = 0;
  std::map<std::uint32_t, std::uint32_t> functions{};  // of the profile, by those of the NameTable
  Locations locations{};                               // by file offset
};

// The first executable segment, so that a file is one mapping in all profiles.
PprofMapping mapping_of(const ElfSummary& elf) {
  const auto code = std::ranges::find_if(
      elf.segments, [](const ElfSegment& segment) { return (segment.flags & PF_X) != 0; });
  if (code == elf.segments.end()) return {};
  const std::uint64_t in_page = code->vaddr % kPageBytes;
  const std::uint64_t end = code->vaddr + code->memory_bytes;
  return {.start = code->vaddr - in_page,
          .limit = (end + kPageBytes - 1) / kPageBytes * kPageBytes,
          .file_offset = code->offset - code->offset % kPageBytes};
}

// In the second value's unit for each sample.
struct Period {
  PprofValueType type;
  std::int64_t value = 0;
};

Period period_in(const SessionSnapshot& snapshot) {
  const auto period = static_cast<std::int64_t>(period_of(snapshot));
  const EventSpec& event = snapshot.event;
  if (!event.is_time) return {{event.name, event.unit}, period};
  if (event.frequency_hz == 0) {
    return {{"cpu", "nanoseconds"}, static_cast<std::int64_t>(event.period)};
  }
  return {{"cpu", "nanoseconds"}, period * kNanosecondsPerMicrosecond};
}

class ProfileNamer {
 public:
  ProfileNamer(const SessionSnapshot& snapshot, const NameSources& names, const std::string& host)
      : snapshot_(snapshot),
        names_(names),
        period_(period_in(snapshot)),
        profile_({{"samples", "count"}, period_.type}) {
    describe(host);
  }

  NamedProfile build() {
    for (const ProcessSnapshot& process : snapshot_.processes) collect_hits(process);
    for (auto& [key, file] : files_) name_file(file);
    add_lines();
    name_vdso();
    for (const ProcessSnapshot& process : snapshot_.processes) add(process);
    return {std::move(profile_), shares_, std::move(label_sets_)};
  }

 private:
  using Functions = std::span<const std::uint32_t>;

  void describe(const std::string& host) {
    profile_.default_sample_type = period_.type.type;
    profile_.period_type = period_.type;
    profile_.period = period_.value;
    profile_.time_ns = std::chrono::nanoseconds(snapshot_.started.time_since_epoch()).count();
    profile_.duration_ns = snapshot_.lasted.count();
    profile_.comments.insert("profd " PROFD_VERSION " on " + host);
    (void)add_mapping({}, "[all processes of " + host + "]");
  }

  // All texts that programs choose, which may be anything.
  std::uint32_t add_text(std::string_view text) {
    return has_controls(text) ? profile_.add_text(without_controls(text)) : profile_.add_text(text);
  }

  std::uint32_t add_mapping(PprofMapping mapping, const std::string& file,
                            const std::string& build_id = {}) {
    mapping.file = add_text(file);
    mapping.build_id = add_text(build_id);
    return profile_.add_mapping(mapping);
  }

  const ProcessMapping* mapping_of_frame(const ProcessSnapshot& process,
                                         const StackTable::Stack& stack,
                                         const UserFrame& frame) const {
    const auto ids = process.samples.stacks.mapping_ids(stack);
    if (frame.mapping >= ids.size()) return nullptr;
    const auto known = process.image.mappings.find(ids[frame.mapping]);
    return known == process.image.mappings.end() ? nullptr : &known->second;
  }

  void collect_hits(const ProcessSnapshot& process) {
    const StackTable& table = process.samples.stacks;
    for (const StackTable::Stack& stack : table.stacks()) {
      const auto words = table.user_frames(stack);
      for (std::size_t i = 0; i < words.size(); ++i) {
        const UserFrame frame = UserFrame::from_word(words[i]);
        const ProcessMapping* mapping = mapping_of_frame(process, stack, frame);
        if (mapping == nullptr) continue;
        const std::uint64_t offset = offset_of(*mapping, frame, kind_of_frame(words, i));
        if (mapping->kind == PROFD_MAPPING_VDSO) vdso_.hit.samples_by_offset[offset] += stack.count;
        if (mapping->kind != PROFD_MAPPING_FILE || !mapping->file) continue;
        ProfiledFile& file = files_[mapping->file_key];
        if (!file.hit.file || !file.hit.file->fd.valid()) file.hit.file = mapping->file;
        file.hit.samples_by_offset[offset] += stack.count;
      }
    }
  }

  static std::uint64_t offset_of(const ProcessMapping& mapping, const UserFrame& frame,
                                 PcKind kind) {
    return code_address(frame, kind) - mapping.start + mapping.file_offset;
  }

  void name_file(ProfiledFile& file) {
    file.named = names_.files.name(file.hit, names_.budgets);
    const std::optional<ElfSummary>& elf = file.named.elf;
    file.mapping = add_mapping(elf ? mapping_of(*elf) : PprofMapping(), file.hit.file->path,
                               elf ? to_hex(elf->build_id) : std::string());
  }

  void add_lines() {
    if (names_.line_budget == nullptr) return;
    std::vector<const HitFile*> hits;
    for (const auto& [key, file] : files_) hits.push_back(&file.hit);
    names_.files.add_lines(hits, *names_.line_budget);
  }

  void name_vdso() {
    if (vdso_.hit.samples_by_offset.empty()) return;
    vdso_.named = names_.files.name_vdso(vdso_.hit.samples_by_offset, names_.budgets);
    vdso_.mapping =
        add_mapping(vdso_.named.elf ? mapping_of(*vdso_.named.elf) : PprofMapping(), "[vdso]");
  }

  // One set for each thread in `labels_`, or a single one where threads are not distinguished.
  void add_label_sets(const ProcessSnapshot& process) {
    labels_.clear();
    if (!snapshot_.threads) {
      labels_.emplace(0, add_label_set(process, {}));
      return;
    }
    for (const StackTable::Stack& stack : process.samples.stacks.stacks()) {
      if (labels_.contains(stack.thread)) continue;
      const std::string_view thread = snapshot_.threads->name(stack.thread);
      labels_.emplace(stack.thread, add_label_set(process, thread.empty() ? kNoLabel : thread));
    }
  }

  // Without a label `thread` if that is empty.
  std::uint32_t add_label_set(const ProcessSnapshot& process, std::string_view thread) {
    const ProcessLabels labels = labels_of(process, names_.users);
    const auto text = [this](std::string_view key, std::string_view value) {
      return PprofLabel{.key = add_text(key), .text = add_text(value)};
    };
    std::vector<PprofLabel> set{{.key = add_text("pid"), .number = labels.pid},
                                text("comm", labels.comm),
                                text("unit", labels.unit),
                                text("container", labels.container),
                                text("pod", labels.pod),
                                text("user", labels.user),
                                text("runtime", labels.runtime)};
    if (!thread.empty()) set.push_back(text("thread", thread));
    return profile_.add_labels(std::move(set));
  }

  void add(const ProcessSnapshot& process) {
    add_label_sets(process);
    label_sets_.push_back(labels_.empty() ? 0 : labels_.begin()->second);
    jit_.clear();
    const auto stacks = process.samples.stacks.stacks();
    for (const StackTable::Stack& stack : stacks) {
      const bool is_resolved = process.jit && stack.is_timed;
      if (!is_resolved) add(process, stack, {}, stack.count);
    }
    if (!process.jit) return;
    jit_lines_ = JitLines(names_.files.parser(), *process.jit);
    for (const JitSamples::Run& run : process.jit->runs) {
      const StackTable::Stack& stack = stacks[run.stack];
      add(process, stack, process.jit->frames_of(run, stack.user_frames), run.count);
    }
  }

  void add(const ProcessSnapshot& process, const StackTable::Stack& stack, Functions functions,
           std::uint64_t samples) {
    stack_.clear();
    add_kernel_frames(process.samples.stacks.kernel_frames(stack));
    const auto words = process.samples.stacks.user_frames(stack);
    for (std::size_t i = 0; i < words.size(); ++i) {
      const UserFrame frame = UserFrame::from_word(words[i]);
      const bool is_jit = !functions.empty() && functions[i] != JitSamples::kNoFunction;
      const PcKind kind = kind_of_frame(words, i);
      stack_.push_back(is_jit ? jit_location(*process.jit, functions[i], code_address(frame, kind))
                              : user_location(process, stack, frame, kind));
    }
    count_names(samples);
    std::vector<std::uint32_t> locations;
    locations.reserve(stack_.size());
    for (const NamedLocation& location : stack_) locations.push_back(location.index);
    const auto count = static_cast<std::int64_t>(samples);
    const std::array values{count, count * period_.value};
    profile_.add_sample(
        {.labels = labels_.at(stack.thread), .stack = profile_.add_stack(locations)}, values);
  }

  void count_names(std::uint64_t samples) {
    shares_.samples += samples;
    const bool is_fully_named =
        std::ranges::all_of(stack_, [](const NamedLocation& one) { return has_name(one.source); });
    if (is_fully_named) shares_.fully_named += samples;
    if (stack_.empty()) return;
    shares_.by_source.at(static_cast<std::size_t>(stack_.front().source)) += samples;
  }

  void add_kernel_frames(std::span<const std::uint64_t> frames) {
    if (frames.empty()) return;
    if (snapshot_.hide_kernel) {
      stack_.push_back(location_of_name("[kernel]", NameSource::kKernel));
      return;
    }
    stack_.push_back(kernel_location(frames.front()));
    for (const std::uint64_t pc : frames.subspan(1)) stack_.push_back(kernel_location(pc - 1));
  }

  NamedLocation kernel_location(std::uint64_t address) {
    const auto [known, added] = kernel_.try_emplace(address);
    if (!added) return known->second;
    if (!kernel_mapping_) kernel_mapping_ = add_mapping({}, "[kernel.kallsyms]");
    const PprofLocation location{.address = address, .mapping = *kernel_mapping_};
    const auto symbol = names_.kernel.find(address);
    if (!symbol) {
      known->second = {profile_.add_location(location, {}), NameSource::kGap};
      return known->second;
    }
    const std::uint32_t name = add_text(symbol->name);
    const PprofLine line{
        .function = profile_.add_function(
            {.name = name, .system_name = name, .file = add_text(symbol->module)})};
    known->second = {profile_.add_location(location, {&line, 1}), NameSource::kKernel};
    return known->second;
  }

  // A location of memory without a file, which is named by the name of its mapping.
  NamedLocation location_of_name(const std::string& name, NameSource source) {
    const std::uint32_t mapping = add_mapping({}, name);
    return {profile_.add_location({.mapping = mapping}, {}), source};
  }

  NamedLocation user_location(const ProcessSnapshot& process, const StackTable::Stack& stack,
                              const UserFrame& frame, PcKind kind) {
    const ProcessMapping* mapping = mapping_of_frame(process, stack, frame);
    if (mapping == nullptr) return location_of_name("[unknown]", NameSource::kNoMapping);
    if (mapping->kind == PROFD_MAPPING_ANONYMOUS) {
      return location_of_name("[anon]", NameSource::kAnonymous);
    }
    const std::uint64_t offset = offset_of(*mapping, frame, kind);
    if (mapping->kind == PROFD_MAPPING_VDSO) return file_location(vdso_, offset);
    if (!mapping->file) return location_of_name("[unreachable]", NameSource::kNoFile);
    return file_location(files_.at(mapping->file_key), offset);
  }

  NamedLocation file_location(ProfiledFile& file, std::uint64_t offset) {
    const auto [known, added] = file.locations.try_emplace(offset);
    if (added) known->second = add_file_location(file, offset);
    return known->second;
  }

  NamedLocation add_file_location(ProfiledFile& file, std::uint64_t offset) {
    const auto address = file.named.address_of(offset);
    PprofLocation location{.address = address.value_or(0), .mapping = file.mapping};
    const NameTable* const names = file.named.names;
    const NameTable::Entry* entry = address && names != nullptr ? names->find(*address) : nullptr;
    if (entry == nullptr) return {profile_.add_location(location, {}), file.named.missing};
    location.is_folded = entry->is_folded;
    std::vector<PprofLine> lines;
    for (const NameTable::Line& line : names->lines(*entry)) {
      lines.push_back({.function = function_of(file, line.function), .line = line.line});
    }
    return {profile_.add_location(location, lines), entry->source};
  }

  std::uint32_t function_of(ProfiledFile& file, std::uint32_t index) {
    const auto [known, added] = file.functions.try_emplace(index);
    if (!added) return known->second;
    const NameTable& names = *file.named.names;
    const NameTable::Function& function = names.function(index);
    known->second =
        profile_.add_function({.name = add_text(names.text(function.name)),
                               .system_name = add_text(names.text(function.system_name)),
                               .file = add_text(names.text(function.file)),
                               .start_line = function.start_line});
    return known->second;
  }

  NamedLocation jit_location(const JitSamples& samples, std::uint32_t index,
                             std::uint64_t address) {
    const auto [known, added] = jit_.try_emplace({index, address});
    if (!added) return known->second;
    const SampledJitCode& code = samples.functions[index];
    const JitLines::Line* const line = jit_lines_.at(index, address - code.address);
    PprofFunction function{.name = add_text(code.name)};
    if (line != nullptr) {
      function.file = add_text(line->file);
      const JitLines::Line& first = *jit_lines_.first(index);
      if (first.file == line->file) function.start_line = first.line;
    }
    const PprofLine shown{.function = profile_.add_function(function),
                          .line = line == nullptr ? 0 : line->line};
    const std::uint32_t mapping = add_mapping({}, "[jit]");
    known->second = {profile_.add_location({.address = address, .mapping = mapping}, {&shown, 1}),
                     NameSource::kJit};
    return known->second;
  }

  const SessionSnapshot& snapshot_;
  const NameSources& names_;
  Period period_;
  PprofProfile profile_;
  std::vector<std::uint32_t> label_sets_;
  NameShares shares_;
  std::map<FileKey, ProfiledFile> files_;
  ProfiledFile vdso_;
  Locations kernel_;  // by address
  std::optional<std::uint32_t> kernel_mapping_;
  // Of the current process:
  JitLines jit_lines_;
  std::map<std::uint32_t, std::uint32_t> labels_;  // by StackTable::Stack::thread
  std::map<std::pair<std::uint32_t, std::uint64_t>, NamedLocation> jit_;  // by function, address
  // Of the current stack, the leaf first:
  std::vector<NamedLocation> stack_;
};

}  // namespace

NamedProfile build_named_profile(const SessionSnapshot& snapshot, const NameSources& names,
                                 const std::string& host) {
  return ProfileNamer(snapshot, names, host).build();
}

}  // namespace profd
