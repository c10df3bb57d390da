// Stores all records that a Sampler delivers.

#pragma once

#include <chrono>
#include <cstdint>
#include <deque>
#include <map>
#include <memory>
#include <set>
#include <string>
#include <vector>

#include "collectors/bpf/sample.h"
#include "collectors/files/mapped_files.h"

namespace profd::test {

struct StoredSample {
  SampleView view;  // its spans point into `words`
  std::vector<std::uint64_t> words;
  // Of a deferred sample.
  profd_deferred_stack deferred{};
  std::vector<std::uint64_t> deferred_window;

  explicit StoredSample(const SampleView& sample);
  explicit StoredSample(const DeferredSampleView& deferred);
  StoredSample(const StoredSample&) = delete;
  StoredSample& operator=(const StoredSample&) = delete;

  [[nodiscard]] UserFrame frame(std::size_t index) const {
    return UserFrame::from_word(view.user_frames[index]);
  }
};

struct StoredMapping {
  ProcessKey process;
  std::uint64_t id;
  std::uint64_t start;
  std::uint64_t end;
  std::uint64_t file_offset;
  FileKey file;
  profd_mapping_kind kind;
  std::string names;
  std::shared_ptr<const MappedFile> mapped;
};

struct StoredProcess {
  ProcessKey process;
  FileKey executable;
  std::uint32_t uid;
  std::uint32_t parent_tgid;
  bool kernel_thread;
  std::string comm;
  std::string cgroup;
};

struct StoredInterpreted {
  ProcessKey process;
  std::uint64_t time_ns;
  std::uint32_t cpu;
  profd_chain_end end;
  bool of_block;
  std::vector<profd_interpreted_entry> entries;
};

struct StoredCode {
  std::string name;
  std::string qualifier;
  std::string file;
  std::string lines;
  std::uint32_t first_line = 0;
  std::uint32_t units = 0;
};

class RecordingSink : public SampleSink {
 public:
  void on_sample(const SampleView& sample) noexcept override;
  void on_deferred_sample(const DeferredSampleView& deferred) noexcept;
  void on_mapping(const MappingView& mapping,
                  std::shared_ptr<const MappedFile> file) noexcept override;
  void on_process(const ProcessView& process) noexcept override;
  void on_unmap(const UnmapView& unmap) noexcept override { unmaps.push_back(unmap); }
  // Only by UnwindTest: a Sampler keeps both.
  void on_interpreted(const InterpretedStackView& stack) noexcept;
  void on_code(const InterpretedCodeView& code) noexcept;

  // Forgets all mappings and processes, as user space may at the end of a session.
  void forget();

  // Samples that arrived before the record of their process or of one of their mappings.
  [[nodiscard]] std::size_t unannounced() const { return unannounced_; }
  [[nodiscard]] std::vector<const StoredSample*> of_process(std::uint32_t tgid) const;

  std::chrono::milliseconds pause{};  // before each sample is taken
  std::deque<StoredSample> samples;
  std::map<std::uint64_t, StoredMapping> mappings;
  std::vector<StoredProcess> processes;
  std::vector<UnmapView> unmaps;
  std::vector<StoredInterpreted> interpreted;
  std::map<std::uint64_t, StoredCode> codes;  // by id

 private:
  void check_announced(const SampleView& sample);

  std::set<ProcessKey> announced_;
  std::size_t unannounced_ = 0;
};

}  // namespace profd::test
