#include "daemon/profiles/profile_builder.h"

#include <algorithm>
#include <memory>
#include <optional>
#include <set>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include <boost/container_hash/hash.hpp>
#include <boost/unordered/unordered_flat_map.hpp>

#include "daemon/profiles/mapping_layout.h"
#include "daemon/profiles/process_labels.h"
#include "daemon/samples/stack_table.h"
#include "formats/proc/cgroup_path.h"

namespace profd {
namespace {

struct FramesHash {
  std::size_t operator()(const std::vector<Frame>& frames) const {
    std::size_t seed = frames.size();
    for (const Frame& frame : frames) {
      boost::hash_combine(seed, frame.pc);
      boost::hash_combine(seed, static_cast<unsigned>(frame.kind));
    }
    return seed;
  }
};

bool is_in_build_dir(const ProfileMapping& line) { return line.path.starts_with(kBuildPrefix); }

// The state that the steps of build_profile() share.
class Builder {
 public:
  Builder(const ProcessSnapshot& process, const SharedObjects& shared)
      : process_(process), shared_(shared), layout_(process, shared.objects) {}

  BuiltProfile build(std::uint64_t period) {
    find_entries();
    locate_jit_code();
    for (const StackTable::Stack& stack : table().stacks()) {
      count(stack);
      if (!is_resolved(stack)) add(stack, {}, stack.count);
    }
    add_runs();
    Profile& profile = built_.profile;
    profile.period = period;
    for (const auto& [frames, samples] : stacks_) profile.add_stack(frames, samples);
    profile.mappings = layout_.lines();
    if (built_.jit) built_.jit->part.add_lines(built_.jit->line_path, profile.mappings);
    if (has_kernel_frames_) profile.mappings.push_back(shared_.kernel.mapping());
    if (std::ranges::any_of(profile.mappings, is_in_build_dir)) profile.build_dir.assign(1, '.');
    describe();
    return std::move(built_);
  }

 private:
  using CountedStack = std::pair<std::vector<Frame>, std::uint64_t>;
  // The JIT function of each user frame. Empty: no frame has one.
  using Functions = std::span<const std::uint32_t>;

  const StackTable& table() const { return process_.samples.stacks; }

  const ObjectPart* part_of(const StackTable::Stack& stack, const UserFrame& frame) const {
    const auto ids = table().mapping_ids(stack);
    return frame.mapping < ids.size() ? layout_.find(ids[frame.mapping]) : nullptr;
  }

  // The file offset of the outermost frame's code. None: it does not lie in the executable.
  std::optional<std::uint64_t> root_offset(const StackTable::Stack& stack) {
    const auto words = table().user_frames(stack);
    if (words.empty()) return std::nullopt;
    const UserFrame root = UserFrame::from_word(words.back());
    const ObjectPart* part = part_of(stack, root);
    if (part == nullptr || !part->main_executable || !part->file) return std::nullopt;
    executable_ = part->file;
    return part->offset_of(code_address(root, kind_of_frame(words, words.size() - 1)));
  }

  void find_entries() {
    std::set<std::uint64_t> roots;
    for (const StackTable::Stack& stack : table().stacks()) {
      if (reached_root(stack.user_end)) continue;
      if (const auto offset = root_offset(stack)) roots.insert(*offset);
    }
    if (roots.empty()) return;
    entry_offsets_ =
        shared_.entries.select(*executable_, roots, shared_.symbols.of(executable_->owner));
  }

  // A stack that frame pointers unwound up to the program's entry function is complete too.
  bool is_complete(const StackTable::Stack& stack) {
    if (reached_root(stack.user_end)) return true;
    const auto root = root_offset(stack);
    return root && entry_offsets_.contains(*root);
  }

  void count(const StackTable::Stack& stack) {
    ProfileSummary& summary = built_.summary;
    if (stack.stack_class == StackClass::kKernelOnly) {
      summary.kernel_only_samples += stack.count;
      return;
    }
    summary.user_samples += stack.count;
    if (is_complete(stack)) {
      summary.complete_samples += stack.count;
    } else {
      const std::string_view reason = incomplete_reason(stack.stack_class, stack.user_end);
      summary.incomplete[std::string(reason)] += stack.count;
    }
  }

  // Whether the frames of the stack were resolved by time, since they may lie in JIT code.
  bool is_resolved(const StackTable::Stack& stack) const { return process_.jit && stack.is_timed; }

  void locate_jit_code() {
    if (!process_.jit || shared_.jit == nullptr || process_.jit->functions.empty()) return;
    JitImagePart part(*process_.jit, layout_.lines_of_files(), shared_.jit->room());
    built_.jit.emplace(BuiltProfile::Jit{
        shared_.jit->line_path_for(process_.image.comm, process_.key.tgid), std::move(part)});
  }

  void add_runs() {
    if (!process_.jit) return;
    for (const JitSamples::Run& run : process_.jit->runs) {
      const StackTable::Stack& stack = table().stacks()[run.stack];
      const Functions functions = process_.jit->frames_of(run, stack.user_frames);
      count_jit_code(stack, functions, run.count);
      add(stack, functions, run.count);
    }
  }

  // The innermost user frame decides whether samples count as JIT samples, since the time was spent
  // there.
  void count_jit_code(const StackTable::Stack& stack, Functions functions, std::uint64_t samples) {
    if (functions.empty()) return;
    const bool is_named = functions.front() != JitSamples::kNoFunction;
    const UserFrame leaf = UserFrame::from_word(table().user_frames(stack).front());
    const ObjectPart* part = part_of(stack, leaf);
    if (!is_named && (part == nullptr || !part->may_be_jit)) return;
    jit_samples_ += samples;
    if (is_named) jit_named_samples_ += samples;
  }

  void add(const StackTable::Stack& stack, Functions functions, std::uint64_t samples) {
    std::vector<Frame> frames;
    const auto kernel = table().kernel_frames(stack);
    has_kernel_frames_ = has_kernel_frames_ || !kernel.empty();
    shared_.kernel.append_frames(kernel, frames);
    add_user_frames(stack, functions, frames);
    const auto [known, added] = index_.try_emplace(frames, stacks_.size());
    if (added) stacks_.emplace_back(std::move(frames), 0);
    stacks_[known->second].second += samples;
  }

  void add_user_frames(const StackTable::Stack& stack, Functions functions,
                       std::vector<Frame>& frames) {
    const auto words = table().user_frames(stack);
    for (std::size_t i = 0; i < words.size(); ++i) {
      const UserFrame frame = UserFrame::from_word(words[i]);
      const PcKind kind = kind_of_frame(words, i);
      const bool is_jit =
          built_.jit && !functions.empty() && functions[i] != JitSamples::kNoFunction;
      frames.push_back(is_jit ? Frame{built_.jit->part.place(functions[i], frame.address), kind}
                              : user_frame(stack, frame, kind));
    }
  }

  Frame user_frame(const StackTable::Stack& stack, const UserFrame& frame, PcKind kind) {
    const ObjectPart* part = part_of(stack, frame);
    if (part != nullptr) part->object->hit(part->offset_of(code_address(frame, kind)));
    return {.pc = frame.address + (part != nullptr ? part->shift : 0), .kind = kind};
  }

  void describe() {
    ProfileSummary& summary = built_.summary;
    const ProcessImage& image = process_.image;
    summary.pid = process_.key.tgid;
    summary.start_time_ns = process_.key.start_ns;
    summary.comm = image.comm.empty() ? std::string("unknown") : image.comm;
    summary.stacks = stacks_.size();
    CgroupOwner owner = owner_of_cgroup(image.cgroup);
    summary.unit = std::move(owner.unit);
    summary.container = std::move(owner.container);
    if (jit_samples_ != 0) summary.jit = describe_jit();
  }

  JitNames describe_jit() const {
    const JitProcessInfo& info = process_.jit->info;
    const Runtime* const mapped = runtime_of(process_.image);
    return {.runtime = std::string(mapped == nullptr ? info.runtime : mapped->name),
            .file = info.file,
            .functions = info.functions,
            .samples = jit_samples_,
            .named_samples = jit_named_samples_,
            .time_dropped = process_.jit->time_dropped};
  }

  const ProcessSnapshot& process_;
  const SharedObjects& shared_;
  MappingLayout layout_;
  std::shared_ptr<const MappedFile> executable_;
  std::set<std::uint64_t> entry_offsets_;
  bool has_kernel_frames_ = false;
  std::uint64_t jit_samples_ = 0;
  std::uint64_t jit_named_samples_ = 0;
  boost::unordered_flat_map<std::vector<Frame>, std::size_t, FramesHash> index_;
  std::vector<CountedStack> stacks_;  // in the order of their first sample
  BuiltProfile built_;
};

}  // namespace

BuiltProfile build_profile(const ProcessSnapshot& process, std::uint64_t period,
                           const SharedObjects& shared) {
  return Builder(process, shared).build(period);
}

}  // namespace profd
