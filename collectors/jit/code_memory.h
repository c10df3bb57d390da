// Where processes run code that they made, as far as samples have told: the memory whose end ends
// that code. Of the io thread.

#pragma once

#include <cstdint>
#include <functional>
#include <map>
#include <span>
#include <vector>

#include "collectors/bpf/sample.h"

namespace profd {

// Memory that processes share and no directory holds. Its file may be out of reach: while a runtime
// takes the right to run its code away to write it, the kernel joins the memory with its
// neighbours.
[[nodiscard]] bool is_shared_memory(const FileKey& file);

// Memory that a process wrote code into: without a file, or with one that lives in memory.
[[nodiscard]] bool is_jit_code(const MappingView& mapping);

// The places of one process. Of more than kMaxSpans those that lie nearest to each other become
// one, with what is between them.
class JitCodeRanges {
 public:
  static constexpr std::size_t kMaxSpans = PROFD_WATCHED_SPANS;

  // False where it was known.
  bool add(const AddressRange& memory);

  // In order; none touches another.
  [[nodiscard]] std::span<const AddressRange> all() const { return spans_; }

 private:
  void join_nearest();

  std::vector<AddressRange> spans_;
};

class JitCodeMemory {
 public:
  enum class Need : std::uint8_t { kNotYet, kNow, kNoMore };
  // With no spans: no longer.
  using Watch = std::function<void(const ProcessKey& process, std::span<const AddressRange> spans)>;

  // Told at once where it is news of a process that is needed now.
  void add(const ProcessKey& process, const AddressRange& memory, Need need, const Watch& watch);

  // Tells what has not been told of processes that are needed now, and of those that no longer are.
  void tell(const std::function<Need(const ProcessKey&)>& need_of, const Watch& watch);

 private:
  struct Process {
    JitCodeRanges spans;
    bool is_due = false;
    bool is_watched = false;

    void tell(const ProcessKey& key, Need need, const Watch& watch);
  };

  std::map<ProcessKey, Process> processes_;
};

}  // namespace profd
