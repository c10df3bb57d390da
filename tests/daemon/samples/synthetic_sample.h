// Samples as the sampler would hand them over, put together by hand.

#pragma once

#include <cstdint>
#include <limits>
#include <optional>
#include <string_view>
#include <utility>
#include <vector>

#include "collectors/bpf/sample.h"

namespace profd::test {

inline constexpr ProcessKey kProcess{.tgid = 7, .exec_id = 1, .start_ns = 100};
inline constexpr std::uint64_t kNoLimit = std::numeric_limits<std::uint64_t>::max();

[[nodiscard]] inline std::uint64_t frame_word(std::uint64_t address, std::uint64_t mapping_index,
                                              profd_frame_how how) {
  return address | mapping_index << PROFD_FRAME_MAPPING_SHIFT |
         static_cast<std::uint64_t>(how) << PROFD_FRAME_HOW_SHIFT;
}

// Owns the words that its view shows. Leaf first.
class SyntheticSample {
 public:
  explicit SyntheticSample(ProcessKey process) : process_(process) {}

  SyntheticSample& kernel(std::uint64_t address) {
    kernel_.push_back(address);
    return *this;
  }
  // The mapping is added to the sample's list when it is not in it yet; 0: none.
  SyntheticSample& user(std::uint64_t address, std::uint64_t mapping_id = 0,
                        profd_frame_how how = PROFD_FRAME_POINTER) {
    user_.push_back(frame_word(address, index_of(mapping_id), how));
    return *this;
  }
  SyntheticSample& leaf(std::uint64_t address, std::uint64_t mapping_id = 0) {
    return user(address, mapping_id, PROFD_FRAME_INTERRUPTED);
  }
  SyntheticSample& interpreted(std::uint32_t code, std::uint32_t position) {
    user_.push_back(InterpretedFrame::to_word(code, position));
    return *this;
  }
  SyntheticSample& context(profd_context value) {
    context_ = value;
    return *this;
  }
  SyntheticSample& end(profd_user_end value) {
    end_ = value;
    return *this;
  }
  SyntheticSample& sessions(std::uint32_t mask) {
    sessions_ = mask;
    return *this;
  }
  SyntheticSample& owner(std::optional<ProcessOwner> value) {
    owner_ = value;
    return *this;
  }
  // At most 15 bytes.
  SyntheticSample& thread(std::string_view name) {
    thread_ = {};
    name.copy(thread_.data(), thread_.size() - 1);
    return *this;
  }
  SyntheticSample& period(std::uint64_t value) {
    period_ = value;
    return *this;
  }
  // The sample stands for `count` blocks of `ns` in all, each of which is as long as its own. Of a
  // tick with a time, the state is PROFD_BLOCK_NONE.
  SyntheticSample& block(profd_block_state state, std::uint64_t ns, std::uint64_t count = 1) {
    const bool is_tick = state == PROFD_BLOCK_NONE;
    block_ = {.id = is_tick ? 0U : 1U,
              .chance = 0,
              .state = state,
              .ns = ns,
              .own_ns = is_tick ? 0 : ns / count};
    count_ = count;
    return *this;
  }
  // A long block whose start was not sent.
  SyntheticSample& unsampled() {
    block_.id = 0;
    return *this;
  }
  SyntheticSample& ongoing() {
    block_.is_ongoing = true;
    return *this;
  }

  // Valid as long as *this is, and unchanged.
  [[nodiscard]] SampleView view() {
    words_ = kernel_;
    words_.insert(words_.end(), user_.begin(), user_.end());
    words_.insert(words_.end(), mappings_.begin(), mappings_.end());
    const std::span<const std::uint64_t> words(words_);
    return {.process = process_,
            .time_ns = 1,
            .period = period_,
            .tid = process_.tgid,
            .cpu = 0,
            .sessions = sessions_,
            .owner = owner_,
            .context = context_,
            .user_end = end_,
            .kernel_truncated = false,
            .event_set = 0,
            .thread = thread_,
            .words = words,
            .kernel_frames = words.first(kernel_.size()),
            .user_frames = words.subspan(kernel_.size(), user_.size()),
            .mapping_ids = words.last(mappings_.size()),
            .count = count_,
            .block = block_};
  }

 private:
  std::uint64_t index_of(std::uint64_t mapping_id) {
    if (mapping_id == 0) return PROFD_NO_MAPPING;
    for (std::size_t i = 0; i < mappings_.size(); ++i) {
      if (mappings_[i] == mapping_id) return i;
    }
    mappings_.push_back(mapping_id);
    return mappings_.size() - 1;
  }

  ProcessKey process_;
  std::vector<std::uint64_t> kernel_;
  std::vector<std::uint64_t> user_;
  std::vector<std::uint64_t> mappings_;
  std::vector<std::uint64_t> words_;
  profd_context context_ = PROFD_CONTEXT_USER;
  profd_user_end end_ = PROFD_END_FP_ZERO;
  std::uint32_t sessions_ = 1;
  std::optional<ProcessOwner> owner_;
  std::uint64_t period_ = 0;
  ThreadName thread_{};
  std::uint64_t count_ = 1;
  BlockPart block_{};
};

}  // namespace profd::test
