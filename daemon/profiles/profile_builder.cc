#include "daemon/profiles/profile_builder.h"

#include <algorithm>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include <boost/container_hash/hash.hpp>
#include <boost/unordered/unordered_flat_map.hpp>

#include "daemon/profiles/block_image.h"
#include "daemon/profiles/interpreted_code.h"
#include "daemon/profiles/mapping_layout.h"
#include "daemon/profiles/stack_counts.h"
#include "daemon/profiles/times_of_runs.h"
#include "daemon/samples/stack_table.h"

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
      : process_(process),
        shared_(shared),
        layout_(process, shared.objects),
        ticks_(process.samples.times) {}

  BuiltProfile build(std::uint64_t period) {
    locate_jit_code();
    for (const StackTable::Stack& stack : table().stacks()) {
      if (!is_resolved(stack)) add(stack, {}, {.samples = stack.count, .ns = table().ns(stack)});
    }
    add_runs();
    Profile& profile = built_.profile;
    profile.period = period;
    for (const auto& [frames, value] : stacks_) profile.add_stack(frames, count_of(value));
    profile.mappings = layout_.lines();
    if (built_.jit) built_.jit->part.add_lines(built_.jit->line_path, profile.mappings);
    if (has_kernel_frames_) profile.mappings.push_back(shared_.kernel.mapping());
    if (has_block_frames_) profile.mappings.push_back(block_image_mapping());
    if (std::ranges::any_of(profile.mappings, is_in_build_dir)) profile.build_dir.assign(1, '.');
    built_.summary = count_stacks(process_, shared_.entries, shared_.symbols);
    built_.summary.stacks = stacks_.size();
    return std::move(built_);
  }

 private:
  using CountedStack = std::pair<std::vector<Frame>, StackValue>;
  // The JIT function of each user frame. Empty: no frame has one.
  using Functions = std::span<const std::uint32_t>;

  const StackTable& table() const { return process_.samples.stacks; }

  const ObjectPart* part_of(const StackTable::Stack& stack, const UserFrame& frame) const {
    const auto ids = table().mapping_ids(stack);
    return frame.mapping < ids.size() ? layout_.find(ids[frame.mapping]) : nullptr;
  }

  // Whether the frames of the stack were resolved by time, since they may lie in JIT code.
  bool is_resolved(const StackTable::Stack& stack) const { return process_.jit && stack.is_timed; }

  void locate_jit_code() {
    if (shared_.jit == nullptr) return;
    interpreted_ = InterpretedFunctions(shared_.jit->parser(), process_);
    const JitSamples* const jit = process_.jit ? &*process_.jit : nullptr;
    const bool has_jit_code = jit != nullptr && !jit->functions.empty();
    if (!has_jit_code && interpreted_.empty()) return;
    JitImagePart part(jit, &interpreted_, layout_.lines_of_files());
    std::string path =
        shared_.jit->line_path_for(part.name(), process_.image->comm, process_.key.tgid);
    built_.jit.emplace(BuiltProfile::Jit{std::move(path), std::move(part)});
  }

  // In the profile.
  std::uint64_t count_of(const StackValue& value) const {
    return shared_.microseconds == nullptr ? value.samples : shared_.microseconds->add(value.ns);
  }

  void add_runs() {
    if (!process_.jit) return;
    TimesOfRuns times(table());
    for (const JitSamples::Run& run : process_.jit->runs) {
      const StackTable::Stack& stack = table().stacks()[run.stack];
      const Functions functions = process_.jit->frames_of(run, stack.user_frames);
      add(stack, functions, {.samples = run.count, .ns = times.take(run)});
    }
  }

  void add(const StackTable::Stack& stack, Functions functions, const StackValue& value) {
    std::vector<Frame> frames;
    auto kernel = table().kernel_frames(stack);
    const bool is_cut = shared_.waits != nullptr && is_of_blocks(stack);
    if (is_cut) kernel = shared_.waits->behind_scheduler(kernel);
    has_kernel_frames_ = has_kernel_frames_ || !kernel.empty();
    shared_.kernel.append_frames(kernel, frames, is_cut ? PcKind::kReturnAddress : PcKind::kExact);
    add_user_frames(stack, functions, frames);
    add_block_frame(missing_stack_frame(stack.user_end), frames);
    if (shared_.has_roots) add_block_frame(root_frame(stack.state), frames);
    const auto [known, added] = index_.try_emplace(frames, stacks_.size());
    if (added) stacks_.emplace_back(std::move(frames), StackValue{});
    stacks_[known->second].second.samples += value.samples;
    stacks_[known->second].second.ns += value.ns;
    const auto place = static_cast<std::size_t>(&stack - table().stacks().data());
    for (const TimeLog::Entry& entry : ticks_.take(place, value.samples)) {
      built_.times.push_back(
          {.sample = static_cast<std::uint32_t>(known->second), .tick = entry.tick});
    }
  }

  void add_user_frames(const StackTable::Stack& stack, Functions functions,
                       std::vector<Frame>& frames) {
    const auto words = table().user_frames(stack);
    for (std::size_t i = 0; i < words.size(); ++i) {
      if (InterpretedFrame::is(words[i])) {
        add_interpreted_frame(InterpretedFrame::from_word(words[i]), frames);
        continue;
      }
      const UserFrame frame = UserFrame::from_word(words[i]);
      const PcKind kind = kind_of_frame(words, i);
      const bool is_jit =
          built_.jit && !functions.empty() && functions[i] != JitSamples::kNoFunction;
      const bool is_repeated = is_jit && interpreted_.is_repeated_by(
                                             words, i, process_.jit->functions[functions[i]].name);
      if (is_repeated) continue;
      frames.push_back(is_jit ? Frame{built_.jit->part.place(functions[i], frame.address), kind}
                              : user_frame(stack, frame, kind));
    }
  }

  // The byte of its instruction: no call is before it.
  void add_interpreted_frame(const InterpretedFrame& frame, std::vector<Frame>& frames) const {
    if (!built_.jit) return;
    const std::size_t index = interpreted_.index_of(frame.code);
    const std::uint64_t pc = image_pc(interpreted_.all()[index], frame.position);
    frames.push_back({.pc = built_.jit->part.place_interpreted(index, pc), .kind = PcKind::kExact});
  }

  void add_block_frame(std::string_view name, std::vector<Frame>& frames) {
    if (name.empty()) return;
    frames.push_back(frame_in_block_image(name));
    has_block_frames_ = true;
  }

  Frame user_frame(const StackTable::Stack& stack, const UserFrame& frame, PcKind kind) {
    const ObjectPart* part = part_of(stack, frame);
    if (part != nullptr) part->object->hit(part->offset_of(code_address(frame, kind)));
    return {.pc = frame.address + (part != nullptr ? part->shift : 0), .kind = kind};
  }

  const ProcessSnapshot& process_;
  const SharedObjects& shared_;
  MappingLayout layout_;
  InterpretedFunctions interpreted_;
  TicksOfStacks ticks_;
  bool has_kernel_frames_ = false;
  bool has_block_frames_ = false;
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
