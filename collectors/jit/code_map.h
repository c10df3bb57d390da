// Code maps: the JIT code that one JIT source describes for one process, or for all processes that
// share it; and what a process has of them. For the io thread.

#pragma once

#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <vector>

#include "collectors/bpf/sample.h"
#include "collectors/jit/answers.h"
#include "collectors/jit/code_rows.h"
#include "collectors/jit/stats.h"
#include "formats/jit/code_index.h"

namespace profd {

struct JitCodeMap {
  // A real runtime's largest program has 137,490 functions.
  static constexpr JitCodeLimits kLimits{.generations = std::size_t{1} << 18,
                                         .name_bytes = std::size_t{16} << 20};
  // Unmaps take as much room in the index as functions, so there may be no more of them than of
  // functions, and a few, since a runtime's records come late.
  static constexpr std::uint64_t kFreeUnmaps = 256;

  JitCodeMap() = default;
  JitCodeMap(const JitCodeMap&) = delete;
  JitCodeMap& operator=(const JitCodeMap&) = delete;
  ~JitCodeMap() { rows.erase(0, UINT64_MAX); }

  std::uint32_t number = 0;                     // of all code maps
  std::shared_ptr<const JitSourceFile> source;  // that describes the code
  // By all processes that have the file mapped. An unmap by one does not end code.
  bool is_shared = false;
  JitCodeIndex index{kLimits};
  JitCodeRows rows;                  // of the code as it is now
  std::uint64_t last_record_ns = 0;  // of a jitdump
  bool has_process = false;          // some process has had it
  std::uint64_t loads = 0;           // since it is known
  std::uint64_t unmaps = 0;
  std::size_t bytes = 0;  // of memory, as it is counted for the owner

  // Records of a jitdump have the runtime's times; lines of a perf map, the times of their reading.
  [[nodiscard]] bool has_times() const { return source->is_dump(); }
  [[nodiscard]] std::size_t memory_bytes() const {
    return sizeof(JitCodeMap) + index.memory_bytes() + rows.memory_bytes();
  }

  // Ends the code in memory that the process unmaps.
  void unmap(const UnmapView& unmap);
  void forget_code();
};

// Makes and numbers the code maps, and adds up their memory.
class JitCodeMaps {
 public:
  std::shared_ptr<JitCodeMap> make(std::shared_ptr<const JitSourceFile> source, bool is_shared);

  using IsOwner = std::function<bool(std::uint32_t)>;

  // Of memory, by the owner of the file.
  [[nodiscard]] std::map<std::uint32_t, std::size_t> bytes_by_owner() const;
  // That of the files of some owners.
  void forget_code_of(const IsOwner& is_owner) const;
  void add_to(JitStats& stats) const;
  void forget_unused();
  // As JitForgottenRows::destroy_some(), of the rows of all code maps.
  bool destroy_some() { return forgotten_->destroy_some(); }

 private:
  std::shared_ptr<JitForgottenRows> forgotten_ = std::make_shared<JitForgottenRows>();
  std::vector<std::weak_ptr<JitCodeMap>> maps_;
  std::uint32_t last_number_ = 0;
};

// What a process has of a code map: all of its own ones; of its parent's, the code at the fork.
struct JitLayer {
  static constexpr std::size_t kMaxUnmaps = 64;

  std::shared_ptr<JitCodeMap> map{};
  std::uint64_t until_ns = UINT64_MAX;  // of a parent's, the fork
  // Of a parent's: what this process has unmapped since. Where these are too many, the last one
  // stands for several, with all that lies between them.
  std::vector<UnmapView> unmaps{};

  [[nodiscard]] bool is_own() const { return until_ns == UINT64_MAX; }
  [[nodiscard]] bool is_unmapped(std::uint64_t address, std::uint64_t time_ns) const;
};

// Ends the code in memory that the process with these layers unmaps.
void unmap_in_layers(std::vector<JitLayer>& layers, const UnmapView& unmap);

// The code at an address at a time. The first layer is the process's own.
//
// Where a process has a jitdump and a perf map, the jitdump counts, since it has times. The perf
// map has what the jitdump lacks: code at other addresses, and the newest code, since runtimes
// write a jitdump through a buffer. After the jitdump's last record, a function of the jitdump has
// been replaced if the perf map has it too, and after it another one at the address. This is known
// from the reading of the perf map on, at most a second late.
[[nodiscard]] std::optional<JitFunction> find_in_layers(const std::vector<JitLayer>& layers,
                                                        std::uint64_t address,
                                                        std::uint64_t time_ns);

}  // namespace profd
