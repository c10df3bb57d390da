// The executable mappings of processes, from their mapping records, for deferred stacks, whose
// process may have exited.
//
// Limited: the process without a new mapping for the longest time is forgotten first. Owned by the
// io thread.

#pragma once

#include <cstdint>
#include <list>
#include <map>
#include <memory_resource>

#include "collectors/bpf/sample.h"

namespace profd {

// The key of the table of the vDSO.
[[nodiscard]] FileKey vdso_key();

// The key of the table of a process's JIT code, and the offset of an address in it.
struct JitCodeLocation {
  FileKey key;
  std::uint64_t offset = 0;
};
[[nodiscard]] JitCodeLocation jit_code_location(const ProcessKey& process, std::uint64_t address);

class ProcessMappings {
 public:
  static constexpr std::size_t kMaxMappings = 16'384;  // 3 MB; a busy host reaches any limit
  static constexpr std::size_t kMaxMappingsOfProcess = 4096;

  // Replaces older mappings that overlap it.
  void add(const CodeMapping& mapping);

  // The file of the vDSO is vdso_key(). Valid until the next add().
  [[nodiscard]] const CodeMapping* find(const ProcessKey& process, std::uint64_t address) const;

  [[nodiscard]] std::size_t size() const { return size_; }

 private:
  struct Process {
    explicit Process(std::pmr::memory_resource* memory) : mappings(memory) {}

    std::pmr::map<std::uint64_t, CodeMapping> mappings;  // by start
    std::pmr::list<ProcessKey>::iterator recency;
  };
  Process& touch(const ProcessKey& key);
  bool remove_overlapped(Process& process, const CodeMapping& mapping);
  void forget_oldest();

  // Apart from other memory: these are the only objects of a burst of processes that stay when it
  // is over, and each would keep a page of what was between them.
  std::pmr::unsynchronized_pool_resource memory_;
  std::pmr::map<ProcessKey, Process> processes_{&memory_};
  std::pmr::list<ProcessKey> recency_{&memory_};  // the most recent first
  std::size_t size_ = 0;
};

}  // namespace profd
