// The fixture of the tests of the kernel side's unwinder: the programs and their maps alone,
// without a Sampler, so that a test is the only one that makes tables. Needs root.

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

using SampleCondition = std::function<bool(const StoredSample&)>;

class UnwindTest : public testing::Test {
 protected:
  UnwindTest();
  ~UnwindTest() override;

  void SetUp() override;
  void TearDown() override;

  // Every tick of these processes is recorded from here on. Call once.
  void sample(std::vector<std::uint32_t> pids);

  // The executable file mapping that holds an address, as the kernel tells it: samples the process
  // until it is told.
  const StoredMapping& mapping_at(std::uint32_t pid, std::uint64_t address);

  // Gives a file these rows, by file offset; `number` is the tables'. Seen once tables are raised.
  void install(const FileKey& file, const std::vector<UnwindRow>& rows, std::uint32_t number = 1);
  // Rows of the table that was installed last take these ones' place, unseen.
  void rewrite(const std::vector<UnwindRow>& rows);
  void install_none(const FileKey& file);
  void remove(const FileKey& file);
  // Tables were added or taken away: true for every tick that begins after the call.
  void raise_tables();
  std::uint64_t used_ns(const FileKey& file);

  // Drains until so many samples that hold the condition have come since the call; fails after a
  // minute.
  std::vector<const StoredSample*> collect(std::size_t count, const SampleCondition& condition);

  // Readable when user space was woken.
  [[nodiscard]] int wake_fd() const { return rings_->wake_fd(); }

  RecordingSink sink_;
  std::string directory_;  // for files of the test
  std::size_t ring_bytes_ = std::size_t{1} << 20;

 private:
  class Records;

  void write_piece(const UnwindTableView& table, const UnwindPieceView& piece,
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
