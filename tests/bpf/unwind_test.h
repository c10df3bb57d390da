// The fixture of the tests of the unwinder in BPF: the programs and their maps without a Sampler,
// so that only the test installs tables. Needs root.

#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include <gtest/gtest.h>

#include "collectors/bpf/programs.h"
#include "collectors/bpf/record.h"
#include "collectors/sampling/perf_events.h"
#include "collectors/sampling/target_filter.h"
#include "collectors/unwinding/table_maps.h"
#include "formats/unwind/unwind_table.h"
#include "tests/bpf/recording_sink.h"

namespace profd::test {

inline constexpr const char* kSpin = "\xeb\xfe";  // a jump to itself

using SampleCondition = std::function<bool(const StoredSample&)>;

class UnwindTest : public testing::Test {
 protected:
  UnwindTest();
  ~UnwindTest() override;

  void SetUp() override;
  void TearDown() override;

  // Starts to sample these processes. To be called once.
  void sample(std::vector<std::uint32_t> pids);

  // The executable file mapping of an address: samples the process until its record arrives.
  const StoredMapping& mapping_at(std::uint32_t pid, std::uint64_t address);

  // Installs these rows of a file, by file offset, as table `number`. Used after raise_tables().
  void install(const FileKey& file, const std::vector<UnwindRow>& rows, std::uint32_t number = 1);
  // Replaces the rows of the table that was installed last, without a new generation.
  void rewrite(const std::vector<UnwindRow>& rows);
  void install_none(const FileKey& file);
  void remove(const FileKey& file);
  // Starts a new generation of tables, for every tick that begins after the call.
  void raise_tables();
  std::uint64_t used_ns(const FileKey& file);
  // Writes the value of a map of the programs.
  void put(const char* map, std::uint32_t key, const void* value);
  // Their sums over all CPUs.
  profd_counters counters();

  // Drains until `count` samples that satisfy the condition have arrived since the call; fails
  // after a minute.
  std::vector<const StoredSample*> collect(std::size_t count, const SampleCondition& condition);

  // Readable when user space was woken.
  [[nodiscard]] int wake_fd() const { return rings_->wake_fd(); }

  RecordingSink sink_;
  std::string directory_;  // for files of the test
  std::size_t ring_bytes_ = std::size_t{1} << 20;
  std::uint16_t runtime_ = 0;  // of the files whose tables are installed

 private:
  class Records;

  void write_region(const UnwindTableView& table, const UnwindRegionView& region,
                    std::uint32_t buckets_at);
  void drain_until(const std::function<bool()>& condition);

  std::optional<Programs> programs_;
  std::optional<TargetFilter> filter_;
  std::optional<PerfEvents> events_;
  std::unique_ptr<Records> records_;
  std::unique_ptr<RecordReader> rings_;
  std::unique_ptr<TableMaps> maps_;
  std::span<std::uint32_t> arena_;
  std::uint32_t words_used_ = 0;
  std::uint32_t last_table_at_ = 0;
  std::uint32_t rules_used_ = PROFD_RULE_FIRST_FREE;
};

}  // namespace profd::test
