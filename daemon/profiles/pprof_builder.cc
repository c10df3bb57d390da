#include "daemon/profiles/pprof_builder.h"

#include <algorithm>
#include <array>
#include <functional>
#include <map>
#include <optional>
#include <set>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include <boost/unordered/unordered_flat_map.hpp>

#include "daemon/profiles/block_image.h"
#include "daemon/profiles/file_hits.h"
#include "daemon/profiles/file_locations.h"
#include "daemon/profiles/interpreted_code.h"
#include "daemon/profiles/jit_code.h"
#include "daemon/profiles/profile_files.h"
#include "daemon/profiles/shown_text.h"
#include "daemon/profiles/times_of_runs.h"
#include "daemon/profiles/wait_frames.h"
#include "daemon/samples/stack_table.h"
#include "formats/profile/block_names.h"

namespace profd {
namespace {

constexpr std::int64_t kMicrosecondNs = 1000;

using Locations = boost::unordered_flat_map<std::uint64_t, NamedLocation>;

// In the second value's unit for each sample.
struct Period {
  PprofValueType type;
  std::int64_t value = 0;
};

PprofValueType count_type_of(const EventSpec& event) {
  const bool is_of_blocks_alone = event.has_blocks() && !event.has_ticks();
  return {is_of_blocks_alone ? std::string(kBlocksType) : "samples", "count"};
}

std::string_view time_type_of(const EventSpec& event) {
  switch (event.kind) {
    case EventKind::kOffCpu:
      return kOffCpuType;
    case EventKind::kRunnable:
      return kRunnableType;
    case EventKind::kWall:
      return kWallType;
    case EventKind::kPerf:
      break;
  }
  return "cpu";
}

Period period_in(const SessionSnapshot& snapshot) {
  const auto period = static_cast<std::int64_t>(period_of(snapshot));
  const EventSpec& event = snapshot.event;
  if (event.has_blocks()) return {{std::string(time_type_of(event)), "nanoseconds"}, 1};
  if (!event.is_time) return {{event.name, event.unit}, period};
  if (event.frequency_hz == 0) {
    return {{"cpu", "nanoseconds"}, static_cast<std::int64_t>(event.period)};
  }
  return {{"cpu", "nanoseconds"}, period * kMicrosecondNs};
}

// What samples of one process differ by in their labels.
struct LabelKey {
  std::uint32_t thread = 0;  // StackTable::Stack::thread
  std::uint8_t state = 0;    // profd_block_state
  bool is_ongoing = false;
  Wait wait = Wait::kNone;

  friend auto operator<=>(const LabelKey&, const LabelKey&) = default;
};

// A file as some processes may see it.
struct FileView {
  FileKey file;
  std::string path;
  bool has_names = false;

  friend auto operator<=>(const FileView&, const FileView&) = default;
};

class ProfileNamer {
 public:
  ProfileNamer(const SessionSnapshot& snapshot, const NameSources& names, const std::string& host)
      : snapshot_(snapshot),
        names_(names),
        period_(period_in(snapshot)),
        profile_({count_type_of(snapshot.event), period_.type}),
        hits_(names.files),
        waits_(WaitFrames::by(names.kernel, snapshot.bpf_functions)) {
    describe(host);
  }

  NamedProfile build() {
    for (const ProcessSnapshot& process : snapshot_.processes) hits_.add(process);
    const std::vector<const HitFile*> files = hottest_first();
    name_files(files);
    if (names_.line_budget != nullptr) names_.files.add_lines(files, *names_.line_budget);
    name_vdso();
    if (snapshot_.times_until) profile_.times = {.until = *snapshot_.times_until};
    for (const ProcessSnapshot& process : snapshot_.processes) add(process);
    if (profile_.times) normalize(*profile_.times);
    return {std::move(profile_),
            shares_,
            std::move(label_sets_),
            {identities_.begin(), identities_.end()}};
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
    (void)add_named_mapping(profile_, {}, "[all processes of " + host + "]");
  }

  [[nodiscard]] std::vector<const HitFile*> hottest_first() const {
    std::vector<std::pair<std::uint64_t, const HitFile*>> files;  // with samples
    for (const auto& [key, hit] : hits_.files()) {
      std::uint64_t samples = 0;
      for (const auto& [payer, hits] : hit.hits_by_payer) samples += hits.samples;
      files.emplace_back(samples, &hit);
    }
    std::ranges::stable_sort(files, std::greater(), [](const auto& file) { return file.first; });
    std::vector<const HitFile*> sorted;
    sorted.reserve(files.size());
    for (const auto& [samples, hit] : files) sorted.push_back(hit);
    return sorted;
  }

  // The budgets are for the first files of `files`.
  void name_files(std::span<const HitFile* const> files) {
    for (const HitFile* const hit : files) {
      NamedFile named = names_.files.name(*hit, names_.budgets);
      if (named.elf && !named.elf->build_id.empty()) identities_.insert(named.identity);
      named_.emplace(hit, std::move(named));
    }
  }

  // Processes may know one file by different paths, and not all may have its names. Each has what
  // is its own in the profile.
  FileLocations& locations_in(const ProcessSnapshot& process, const ProcessMapping& mapping) {
    const auto [known, added] = of_mapping_.try_emplace(&mapping);
    if (!added) return *known->second;
    const HitFile& hit = hits_.files().at(mapping.file_key);
    const FileView view{.file = mapping.file_key,
                        .path = std::string(path_of(mapping)),
                        .has_names = may_be_read_by(*hit.file, uid_of(process))};
    const auto [file, is_new] = files_.try_emplace(view);
    if (is_new) {
      const NamedFile named =
          view.has_names ? named_.at(&hit) : NamedFile{.missing = NameSource::kNotReadable};
      const profd_runtime* const runtime =
          view.has_names ? interpreter_in(mapping.file_key) : nullptr;
      file->second = FileLocations(named, view.path, profile_, runtime);
    }
    known->second = &file->second;
    return file->second;
  }

  // Null: none that is known.
  [[nodiscard]] const profd_runtime* interpreter_in(const FileKey& file) const {
    const auto known = snapshot_.interpreters.find(file);
    return known == snapshot_.interpreters.end() ? nullptr : &known->second;
  }

  void name_vdso() {
    const auto& samples_by_offset = hits_.vdso().samples_by_offset;
    if (samples_by_offset.empty()) return;
    vdso_ = FileLocations(names_.files.name_vdso(samples_by_offset, names_.budgets), "[vdso]",
                          profile_);
  }

  // One set for each thread, where threads are distinguished. `kernel` as for add_kernel_frames().
  std::uint32_t labels_for(const StackTable::Stack& stack, std::span<const std::uint64_t> kernel) {
    const bool has_blocks = snapshot_.event.has_blocks();
    const LabelKey key{.thread = stack.thread,
                       .state = stack.state,
                       .is_ongoing = stack.is_ongoing,
                       .wait = has_blocks ? waits_.wait_of(stack.state, kernel) : Wait::kNone};
    const auto [known, added] = labels_.try_emplace(key);
    if (!added) return known->second;
    std::string_view thread;
    if (snapshot_.threads) thread = snapshot_.threads->name(stack.thread);
    if (snapshot_.threads && thread.empty()) thread = kNoLabel;
    std::vector<PprofLabel> of_block;
    if (has_blocks) of_block = block_labels(key);
    known->second = add_labels(profile_, process_labels_, thread, of_block);
    return known->second;
  }

  std::vector<PprofLabel> block_labels(const LabelKey& key) {
    const auto label = [this](std::string_view name, std::string_view value) {
      return PprofLabel{.key = profile_.add_text(name), .text = profile_.add_text(value)};
    };
    std::vector<PprofLabel> labels{
        label(kStateLabel, kBlockStates.at(key.state)),
        label(kWaitLabel, kWaitKinds.at(static_cast<std::size_t>(key.wait)))};
    if (key.is_ongoing) labels.push_back(label(kOngoingLabel, "yes"));
    return labels;
  }

  void add(const ProcessSnapshot& process) {
    process_labels_ = labels_of(process, names_.users, names_.pods);
    labels_.clear();
    jit_.clear();
    interpreted_ = InterpretedFunctions(names_.files.parser(), process);
    interpreted_locations_.clear();
    if (profile_.times) ticks_ = TicksOfStacks(process.samples.times);
    const StackTable& table = process.samples.stacks;
    for (const StackTable::Stack& stack : table.stacks()) {
      const bool is_resolved = process.jit && stack.is_timed;
      if (is_resolved) continue;
      add(process, stack, {},
          {.samples = stack.count, .ns = table.ns(stack), .longest_ns = table.longest_ns(stack)});
    }
    if (process.jit) add_runs(process);
    label_sets_.push_back(labels_.empty() ? add_labels(profile_, process_labels_)
                                          : labels_.begin()->second);
  }

  void add_runs(const ProcessSnapshot& process) {
    const StackTable& table = process.samples.stacks;
    jit_lines_ = JitLines(names_.files.parser(), *process.jit);
    TimesOfRuns times(table);
    for (const JitSamples::Run& run : process.jit->runs) {
      const StackTable::Stack& stack = table.stacks()[run.stack];
      const std::uint64_t ns = times.take(run);
      // Which run has the longest block of the stack is not known: each may.
      add(process, stack, process.jit->frames_of(run, stack.user_frames),
          {.samples = run.count, .ns = ns, .longest_ns = std::min(ns, table.longest_ns(stack))});
    }
  }

  void add(const ProcessSnapshot& process, const StackTable::Stack& stack, Functions functions,
           const StackValue& value) {
    auto kernel = process.samples.stacks.kernel_frames(stack);
    if (is_of_blocks(stack)) kernel = waits_.behind_scheduler(kernel);
    const std::uint32_t labels = labels_for(stack, kernel);
    stack_.clear();
    add_kernel_frames(kernel, is_of_blocks(stack));
    add_user_frames(process, stack, functions);
    add_missing_frames(stack.user_end);
    count_names(value.samples);
    if (snapshot_.event.kind == EventKind::kWall) {
      stack_.push_back(location_of_name(std::string(root_frame(stack.state)), NameSource::kKernel));
    }
    std::vector<std::uint32_t> locations;
    locations.reserve(stack_.size());
    for (const NamedLocation& location : stack_) locations.push_back(location.index);
    const auto count = static_cast<std::int64_t>(value.samples);
    const bool has_blocks = snapshot_.event.has_blocks();
    const std::array values{
        count, has_blocks ? static_cast<std::int64_t>(value.ns) : count * period_.value};
    const std::uint32_t sample =
        profile_.add_sample({.labels = labels, .stack = profile_.add_stack(locations)}, values,
                            static_cast<std::int64_t>(value.longest_ns));
    if (profile_.times) add_times(process, stack, value.samples, sample);
  }

  void add_user_frames(const ProcessSnapshot& process, const StackTable::Stack& stack,
                       Functions functions) {
    const auto words = process.samples.stacks.user_frames(stack);
    for (std::size_t i = 0; i < words.size(); ++i) {
      if (InterpretedFrame::is(words[i])) {
        stack_.push_back(interpreted_location(InterpretedFrame::from_word(words[i])));
        continue;
      }
      const UserFrame frame = UserFrame::from_word(words[i]);
      const PcKind kind = kind_of_frame(words, i);
      const bool is_jit = !functions.empty() && functions[i] != JitSamples::kNoFunction;
      if (!is_jit) {
        stack_.push_back(user_location(process, stack, frame, kind));
        continue;
      }
      const std::string& name = process.jit->functions[functions[i]].name;
      if (interpreted_.is_repeated_by(words, i, name)) continue;
      stack_.push_back(jit_location(*process.jit, functions[i], code_address(frame, kind)));
    }
  }

  // One for those that are not known, where it is not the process that hides them.
  void add_missing_frames(unsigned user_end) {
    if (user_end == PROFD_END_OVER_SHARE) {
      stack_.push_back(location_of_name("[over share]", NameSource::kOverBudget));
    } else if (!was_taken(user_end)) {
      const std::string name(missing_stack_frame(user_end));
      stack_.push_back(location_of_name(name, NameSource::kOverBudget));
    }
  }

  void add_times(const ProcessSnapshot& process, const StackTable::Stack& stack,
                 std::uint64_t samples, std::uint32_t sample) {
    const auto place = &stack - process.samples.stacks.stacks().data();
    for (const TimeLog::Entry& entry : ticks_.take(static_cast<std::size_t>(place), samples)) {
      profile_.times->entries.push_back({.sample = sample, .tick = entry.tick});
    }
  }

  void count_names(std::uint64_t samples) {
    shares_.samples += samples;
    const bool is_fully_named =
        std::ranges::all_of(stack_, [](const NamedLocation& one) { return has_name(one.source); });
    if (is_fully_named) shares_.fully_named += samples;
    if (stack_.empty()) return;
    shares_.by_source.at(static_cast<std::size_t>(stack_.front().source)) += samples;
  }

  // Of a block, without those of the scheduler.
  void add_kernel_frames(std::span<const std::uint64_t> frames, bool are_of_block) {
    if (frames.empty()) return;
    if (snapshot_.hide_kernel) {
      stack_.push_back(location_of_name("[kernel]", NameSource::kKernel));
      return;
    }
    stack_.push_back(kernel_location(frames.front() - (are_of_block ? 1U : 0U)));
    for (const std::uint64_t pc : frames.subspan(1)) stack_.push_back(kernel_location(pc - 1));
  }

  NamedLocation kernel_location(std::uint64_t address) {
    const auto [known, added] = kernel_.try_emplace(address);
    if (!added) return known->second;
    if (!kernel_mapping_) kernel_mapping_ = add_named_mapping(profile_, {}, "[kernel.kallsyms]");
    const PprofLocation location{.address = address, .mapping = *kernel_mapping_};
    const auto symbol = names_.kernel.find(address, snapshot_.bpf_functions);
    if (!symbol) {
      known->second = {profile_.add_location(location, {}), NameSource::kGap};
      return known->second;
    }
    const std::uint32_t name = add_shown_text(profile_, symbol->name);
    const PprofLine line{
        .function = profile_.add_function(
            {.name = name, .system_name = name, .file = add_shown_text(profile_, symbol->module)})};
    known->second = {profile_.add_location(location, {&line, 1}), NameSource::kKernel};
    return known->second;
  }

  // A location of memory without a file, which is named by the name of its mapping.
  NamedLocation location_of_name(const std::string& name, NameSource source) {
    const std::uint32_t mapping = add_named_mapping(profile_, {}, name);
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
    if (mapping->kind == PROFD_MAPPING_VDSO) return vdso_.at(offset, profile_);
    if (!mapping->file) return location_of_name("[unreachable]", NameSource::kNoFile);
    return locations_in(process, *mapping).at(offset, profile_);
  }

  NamedLocation interpreted_location(const InterpretedFrame& frame) {
    const auto [known, added] = interpreted_locations_.try_emplace({frame.code, frame.position});
    if (!added) return known->second;
    const std::size_t index = interpreted_.index_of(frame.code);
    const InterpretedFunctions::Function& code = interpreted_.all()[index];
    const PprofLine line{
        .function = profile_.add_function({.name = add_shown_text(profile_, code.code.name),
                                           .file = add_shown_text(profile_, code.code.file),
                                           .start_line = code.start_line}),
        .line = interpreted_.line_of(index, frame.position)};
    const std::uint32_t mapping = add_named_mapping(profile_, {}, interpreted_.object_of(index));
    const PprofLocation location{.address = image_pc(code, frame.position), .mapping = mapping};
    known->second = {profile_.add_location(location, {&line, 1}),
                     code.has_name ? NameSource::kInterpreted : NameSource::kGap};
    return known->second;
  }

  NamedLocation jit_location(const JitSamples& samples, std::uint32_t index,
                             std::uint64_t address) {
    const auto [known, added] = jit_.try_emplace({index, address});
    if (!added) return known->second;
    const SampledJitCode& code = samples.functions[index];
    const JitLines::Line* const line = jit_lines_.at(index, address - code.address);
    PprofFunction function{.name = add_shown_text(profile_, code.name)};
    if (line != nullptr) {
      function.file = add_shown_text(profile_, line->file);
      const JitLines::Line& first = *jit_lines_.first(index);
      if (first.file == line->file) function.start_line = first.line;
    }
    const PprofLine shown{.function = profile_.add_function(function),
                          .line = line == nullptr ? 0 : line->line};
    const std::uint32_t mapping = add_named_mapping(profile_, {}, "[jit]");
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
  FileHits hits_;
  WaitFrames waits_;
  std::map<const HitFile*, NamedFile> named_;
  std::map<FileView, FileLocations> files_;
  boost::unordered_flat_map<const ProcessMapping*, FileLocations*> of_mapping_;
  std::set<std::string> identities_;
  FileLocations vdso_;
  Locations kernel_;  // by address
  std::optional<std::uint32_t> kernel_mapping_;
  // Of the current process:
  InterpretedFunctions interpreted_;
  // By code and position, as InterpretedFrame has them.
  std::map<std::pair<std::uint32_t, std::uint32_t>, NamedLocation> interpreted_locations_;
  JitLines jit_lines_;
  TicksOfStacks ticks_;
  ProcessLabels process_labels_;
  std::map<LabelKey, std::uint32_t> labels_;  // the sets that its samples have
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
