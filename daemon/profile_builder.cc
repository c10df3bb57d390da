#include "daemon/profile_builder.h"

#include <algorithm>
#include <array>
#include <memory>
#include <optional>
#include <set>
#include <string_view>
#include <utility>
#include <vector>

#include <boost/container_hash/hash.hpp>
#include <boost/unordered/unordered_flat_map.hpp>

#include "daemon/mapping_layout.h"
#include "formats/cgroup_path.h"

namespace profd {
namespace {

// Why a user stack did not reach its entry, by profd_user_end. That of a zero frame pointer is for
// stacks that end so elsewhere: in a thread, or where code without frame pointers left a 0.
constexpr std::array<std::string_view, PROFD_END_COUNT> kIncompleteReasons = {
    "no_user_stack",     "frame_pointer_zero", "no_frame_pointer", "pc_unmapped",
    "pc_not_executable", "stack_unreadable",   "depth_limit",      "mapping_race",
};

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

std::string incomplete_reason(const StackTable::Stack& stack) {
  if (stack.stack_class == StackClass::kCompat) return "32_bit";
  if (stack.user_end >= kIncompleteReasons.size()) return "unknown";
  return std::string(kIncompleteReasons[stack.user_end]);
}

bool is_in_build_dir(const ProfileMapping& mapping) { return mapping.path.starts_with("$build/"); }

// Builds the one profile; a class only so that the steps share what they look up.
class Builder {
 public:
  Builder(const ProcessSnapshot& process, SessionObjects& shared)
      : process_(process), shared_(shared), layout_(process, shared.objects) {}

  BuiltProfile build(std::uint64_t period) {
    find_entries();
    for (const StackTable::Stack& stack : table().stacks()) {
      count(stack);
      add(stack);
    }
    Profile& profile = built_.profile;
    profile.period = period;
    for (const auto& [frames, samples] : stacks_) profile.add_stack(frames, samples);
    profile.mappings = layout_.lines();
    if (has_kernel_frames_) profile.mappings.push_back(shared_.kernel.mapping());
    if (std::ranges::any_of(profile.mappings, is_in_build_dir)) profile.build_dir.assign(1, '.');
    describe();
    return std::move(built_);
  }

 private:
  using CountedStack = std::pair<std::vector<Frame>, std::uint64_t>;

  const StackTable& table() const { return process_.samples.stacks; }

  const PlacedMapping* mapping_of(const StackTable::Stack& stack, const UserFrame& frame) const {
    const auto ids = table().mapping_ids(stack);
    return frame.mapping < ids.size() ? layout_.find(ids[frame.mapping]) : nullptr;
  }

  // The code byte that a frame stands for: that before a return address belongs to the call.
  static std::uint64_t code_address(const UserFrame& frame) {
    return frame.how == PROFD_FRAME_INTERRUPTED ? frame.address : frame.address - 1;
  }

  // Offset of the outermost frame's code in the executable; none where it lies elsewhere.
  std::optional<std::uint64_t> root_offset(const StackTable::Stack& stack) {
    const auto words = table().user_frames(stack);
    if (words.empty()) return std::nullopt;
    const UserFrame root = UserFrame::from_word(words.back());
    const PlacedMapping* mapping = mapping_of(stack, root);
    if (mapping == nullptr || !mapping->main_executable || !mapping->file) return std::nullopt;
    executable_ = mapping->file;
    return mapping->offset_of(code_address(root));
  }

  void find_entries() {
    std::set<std::uint64_t> roots;
    for (const StackTable::Stack& stack : table().stacks()) {
      if (const auto offset = root_offset(stack)) roots.insert(*offset);
    }
    if (roots.empty()) return;
    entry_offsets_ = shared_.entries.select(*executable_, roots, shared_.symbols);
  }

  void count(const StackTable::Stack& stack) {
    ProfileSummary& summary = built_.summary;
    if (stack.stack_class == StackClass::kKernelOnly) {
      summary.kernel_only_samples += stack.count;
      return;
    }
    summary.user_samples += stack.count;
    const auto root = root_offset(stack);
    if (root && entry_offsets_.contains(*root)) {
      summary.complete_samples += stack.count;
    } else {
      summary.incomplete[incomplete_reason(stack)] += stack.count;
    }
  }

  void add(const StackTable::Stack& stack) {
    std::vector<Frame> frames;
    const auto kernel = table().kernel_frames(stack);
    has_kernel_frames_ = has_kernel_frames_ || !kernel.empty();
    shared_.kernel.append_frames(kernel, frames);
    for (const std::uint64_t word : table().user_frames(stack)) {
      frames.push_back(user_frame(stack, UserFrame::from_word(word)));
    }
    const auto [known, added] = index_.try_emplace(frames, stacks_.size());
    if (added) stacks_.emplace_back(std::move(frames), 0);
    stacks_[known->second].second += stack.count;
  }

  Frame user_frame(const StackTable::Stack& stack, const UserFrame& frame) {
    const PlacedMapping* mapping = mapping_of(stack, frame);
    if (mapping != nullptr) mapping->object->hit(mapping->offset_of(code_address(frame)));
    return {.pc = frame.address + (mapping != nullptr ? mapping->shift : 0),
            .kind = frame.how == PROFD_FRAME_INTERRUPTED ? PcKind::kExact : PcKind::kReturnAddress};
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
  }

  const ProcessSnapshot& process_;
  SessionObjects& shared_;
  MappingLayout layout_;
  std::shared_ptr<const MappedFile> executable_;
  std::set<std::uint64_t> entry_offsets_;
  bool has_kernel_frames_ = false;
  boost::unordered_flat_map<std::vector<Frame>, std::size_t, FramesHash> index_;
  std::vector<CountedStack> stacks_;  // in the order they were met
  BuiltProfile built_;
};

}  // namespace

BuiltProfile build_profile(const ProcessSnapshot& process, std::uint64_t period,
                           SessionObjects& shared) {
  return Builder(process, shared).build(period);
}

}  // namespace profd
