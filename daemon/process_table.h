// What is known of the sampled processes: who they are, and what lies at their addresses.
//
// Filled by the records of the kernel side, which are sent once and may arrive after the samples
// that need them, so nothing is looked up before a session ends. An image stays as long as its
// process may be sampled again or a running session has samples of it. The io thread owns the
// table; a ProcessImage is a value that can be copied out for the worker.

#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <string>

#include <boost/unordered/unordered_flat_map.hpp>

#include "collectors/sampling/mapped_files.h"
#include "collectors/sampling/sample.h"

namespace profd {

struct ProcessKeyHash {
  using is_avalanching = void;
  std::size_t operator()(const ProcessKey& key) const noexcept;
};

struct Mapping {
  std::uint64_t start = 0;
  std::uint64_t limit = 0;
  std::uint64_t file_offset = 0;  // bytes
  std::uint64_t time_ns = 0;      // first met
  profd_mapping_kind kind = PROFD_MAPPING_ANONYMOUS;
  FileKey file_key;
  std::shared_ptr<const MappedFile> file;  // null: none, or never opened
};

// One program run by one process: an exec or a reused pid is another.
struct ProcessImage {
  std::string comm;    // the latest
  std::string cgroup;  // path below the cgroup v2 mount; empty: unknown
  std::uint32_t uid = 0;
  std::uint64_t comm_time_ns = 0;
  bool kernel_thread = false;
  FileKey executable;
  boost::unordered_flat_map<std::uint64_t, Mapping> mappings;  // by id
};

class ProcessTable {
 public:
  // A process that maps code without end costs its own frames their names, not the daemon's memory.
  static constexpr std::size_t kMaxMappings = 16'384;
  static constexpr std::size_t kMaxImages = 1'000'000;

  void add(const MappingView& mapping, std::shared_ptr<const MappedFile> file);
  void add(const ProcessView& process);

  // Null when no record of it came.
  [[nodiscard]] const ProcessImage* find(const ProcessKey& key) const;

  // Forgets the images that `needed` refuses and that can't be sampled again, since their process
  // is gone. The kernel side sends each record once, so those of the living stay.
  void forget_unless(const std::function<bool(const ProcessKey&)>& needed);

  [[nodiscard]] std::size_t size() const { return images_.size(); }

 private:
  ProcessImage* find_or_add(const ProcessKey& key);

  boost::unordered_flat_map<ProcessKey, ProcessImage, ProcessKeyHash> images_;
};

}  // namespace profd
