// What is known of the sampled processes: who they are, and what lies at their addresses.
//
// Filled by the records of the kernel side, which are sent once and may arrive after the samples
// that need them, so nothing is looked up before a session ends. An image stays as long as its
// process may be sampled again or a running session has samples of it. The io thread owns the
// table; a ProcessImage is a value that can be copied out for the worker.
//
// Mappings are made by whoever is sampled and last as long as their process, so they are counted by
// user: one that is over a limit is not kept, and its frames keep their addresses.

#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <utility>

#include <boost/unordered/unordered_flat_map.hpp>

#include "collectors/bpf/sample.h"
#include "collectors/files/mapped_files.h"

namespace profd {

struct ProcessKeyHash {
  using is_avalanching = void;
  std::size_t operator()(const ProcessKey& key) const noexcept;
};

struct Mapping {
  std::uint64_t start = 0;
  std::uint64_t end = 0;
  std::uint64_t file_offset = 0;  // bytes
  std::uint64_t time_ns = 0;      // first met
  profd_mapping_kind kind = PROFD_MAPPING_ANONYMOUS;
  FileKey file_key;
  std::shared_ptr<const MappedFile> file;  // null: none, or never opened
};

// Whether JIT code may lie in the mapping (collectors/jit/code_memory.h).
[[nodiscard]] bool may_be_jit_code(const Mapping& mapping);

// One program run by one process: an exec or a reused pid is another.
struct ProcessImage {
  std::string comm;    // the latest
  std::string cgroup;  // path below the cgroup v2 mount; empty: unknown
  std::uint32_t uid = 0;
  bool identified = false;  // a record said who it is
  std::uint64_t comm_time_ns = 0;
  bool kernel_thread = false;
  FileKey executable;
  boost::unordered_flat_map<std::uint64_t, Mapping> mappings;  // by id
};

class ProcessTable {
 public:
  // About 100 bytes each. Of one image; of all images of one uid other than 0; of all.
  static constexpr std::size_t kMaxMappings = 16'384;
  static constexpr std::size_t kMaxMappingsOfUid = 65'536;
  static constexpr std::size_t kMaxMappingsInAll = 524'288;
  static constexpr std::size_t kMaxImages = 1'000'000;

  void add(const MappingView& mapping, std::shared_ptr<const MappedFile> file);
  void add(const ProcessView& process);

  // Null when no record of it came.
  [[nodiscard]] const ProcessImage* find(const ProcessKey& key) const;

  // Forgets the images that `needed` refuses and that can't be sampled again, since their process
  // is gone, and gives their memory back. The kernel side sends each record once, so those of the
  // living stay.
  void forget_unless(const std::function<bool(const ProcessKey&)>& needed);

  [[nodiscard]] std::size_t size() const { return images_.size(); }
  [[nodiscard]] std::size_t mappings() const { return mappings_; }

  // How many mappings were over a limit since this was last asked.
  [[nodiscard]] std::uint64_t take_unkept() { return std::exchange(unkept_, 0); }

 private:
  ProcessImage* find_or_add(const ProcessKey& key);
  [[nodiscard]] bool has_room_for_mapping(const ProcessImage& image) const;
  void identify(ProcessImage& image, std::uint32_t uid);
  void discharge(const ProcessImage& image);

  boost::unordered_flat_map<ProcessKey, ProcessImage, ProcessKeyHash> images_;
  boost::unordered_flat_map<std::uint64_t, std::size_t> mappings_of_owner_;
  std::size_t mappings_ = 0;
  std::uint64_t unkept_ = 0;
};

}  // namespace profd
