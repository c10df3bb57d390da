// The executable mappings of processes as the kernel side told them, for stacks that are unwound
// after their process may be gone.
//
// Bounded: the process that was told of least recently is forgotten first. Owned by the io thread.

#pragma once

#include <cstdint>
#include <list>
#include <map>

#include "collectors/bpf/sample.h"

namespace profd {

struct CodeMapping {
  std::uint64_t id = 0;
  std::uint64_t start = 0;
  std::uint64_t end = 0;
  std::uint64_t file_offset = 0;
  std::uint64_t time_ns = 0;
  FileKey file;  // of the vDSO: vdso_key()
  bool on_fuse = false;
  profd_mapping_kind kind = PROFD_MAPPING_ANONYMOUS;
};

// The key under which the vDSO's rows stand.
[[nodiscard]] FileKey vdso_key();

// The key under which the rows of code stand that a process made, and its offset there.
struct JitCodeLocation {
  FileKey key;
  std::uint64_t offset = 0;
};
[[nodiscard]] JitCodeLocation jit_code_location(const ProcessKey& process, std::uint64_t address);

class ProcessMappings {
 public:
  static constexpr std::size_t kMaxMappings = 16'384;  // 3 MB; a busy host fills any limit in time
  static constexpr std::size_t kMaxMappingsOfProcess = 4096;

  // The newer one stands where two overlap.
  void add(const MappingView& mapping);

  // Valid until the next add().
  [[nodiscard]] const CodeMapping* find(const ProcessKey& process, std::uint64_t address) const;

  [[nodiscard]] std::size_t size() const { return size_; }

 private:
  struct Process {
    std::map<std::uint64_t, CodeMapping> mappings;  // by start
    std::list<ProcessKey>::iterator recency;
  };
  Process& touch(const ProcessKey& key);
  bool remove_overlapped(Process& process, const MappingView& mapping);
  void forget_oldest();

  std::map<ProcessKey, Process> processes_;
  std::list<ProcessKey> recency_;  // the most recent first
  std::size_t size_ = 0;
};

}  // namespace profd
