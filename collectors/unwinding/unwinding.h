// The stage of a sample's way that completes stacks: it takes the records from the rings, and
// passes samples with complete stacks and mappings with their opened files to the next stage.
//
// A mapping whose file is being opened is passed on at once, and once more with the opened file.
//
// A file that could not be opened, or whose table could not be made, for a reason that may pass is
// tried again by time (collectors/files/retry_queue.h), also without a further record of it. So is
// one that could not be opened by another process that maps it.
//
// A sample whose stack reached a file without an unwind table waits in the deferred unwinder. The
// table is made from the mapped file and installed for the BPF programs.
//
// The interpreted frames of a sample, which a record of their own has, are put among its native
// ones (collectors/interpreters/). Announcements of their code go to InterpretedCodes.
//
// Owned by the io thread; the tables are made on another thread (table_loader.h).

#pragma once

#include <chrono>
#include <cstdint>
#include <deque>
#include <map>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "collectors/bpf/programs.h"
#include "collectors/bpf/record.h"
#include "collectors/files/mapped_files.h"
#include "collectors/files/retry_queue.h"
#include "collectors/interpreters/codes.h"
#include "collectors/interpreters/pending_stacks.h"
#include "collectors/interpreters/runtimes.h"
#include "collectors/interpreters/stats.h"
#include "collectors/interpreters/weave.h"
#include "collectors/unwinding/deferred_unwinder.h"
#include "collectors/unwinding/options.h"
#include "collectors/unwinding/process_mappings.h"
#include "collectors/unwinding/stats.h"
#include "collectors/unwinding/table_loader.h"
#include "collectors/unwinding/tables.h"
#include "formats/base/result.h"

namespace profd {

class Unwinding {
 public:
  using Clock = std::chrono::steady_clock;

  // Starts the parser. `programs`, `files`, `next` and `options.codes` must outlive the object.
  static Result<std::unique_ptr<Unwinding>> open(const Programs& programs, MappedFiles& files,
                                                 const UnwindingOptions& options, SampleSink& next);

  Unwinding(const Unwinding&) = delete;
  Unwinding& operator=(const Unwinding&) = delete;
  ~Unwinding();

  void on_record(const Record& record) noexcept;

  // Has the rows of a process's JIT code in one area of 4 GiB (address >> 32) made, and sets them
  // in place of earlier ones. `encode` makes their table on another thread; its offsets are the
  // lower half of the addresses. It is destroyed when the table is installed or refused, and until
  // then there must be no other one for the area. A table without room is counted as refused.
  void set_jit_code_rows(const ProcessKey& process, std::uint32_t owner, std::uint32_t area,
                         EncodeTable encode);

  // Passes on the mappings of files that were opened since the last call, installs the tables that
  // were made, continues the stacks that wait for them, and tries files again. True: tables or
  // stacks are left for the next call, since this one took kMaxTurn.
  bool poll();
  static constexpr std::chrono::milliseconds kMaxTurn{5};

  // Delivers the deferred stacks of sessions that end (a bit mask of slots) as they are.
  void flush(std::uint32_t sessions) { deferred_.flush(sessions); }

  // Readable when a table was made. poll() has something to do then, and when a file was opened.
  [[nodiscard]] int wake_fd() const { return loader_->wake_fd(); }
  [[nodiscard]] std::size_t waiting() const { return deferred_.waiting(); }
  [[nodiscard]] UnwindStats stats() const;

  // Without what the programs count.
  [[nodiscard]] InterpreterStats interpreter_stats() const;
  [[nodiscard]] const Runtimes& runtimes() const { return *runtimes_; }

 private:
  Unwinding(MappedFiles& files, std::unique_ptr<TableMaps> maps, std::unique_ptr<Runtimes> runtimes,
            std::unique_ptr<TableLoader> loader, const UnwindingOptions& options, SampleSink& next);
  void on(const SampleView& sample) noexcept;
  void on(const DeferredSampleView& sample) noexcept;
  void on(const MappingView& mapping) noexcept;
  void on(const ProcessView& process) noexcept;
  void on(const UnmapView& unmap) noexcept;
  void on(const BlockEndView& end) noexcept;
  void on(const WholeBlockView& block) noexcept;
  void on(const InterpretedStackView& stack) noexcept;
  void on(const InterpretedCodeView& code) noexcept;
  // A mapping whose file is not open yet.
  struct LateMapping {
    CodeMapping mapping;
    bool names_cut = false;
    std::string names{};
  };

  // The table of a file that is being opened, for which stacks wait or code runs.
  struct WantedTable {
    CodeMapping mapping;
    FileRegions regions;
    TableLoader::Urgency urgency;
  };

  void deliver(const SampleView& sample, const InterpretedStack& stack) noexcept;
  void deliver_deferred(const SampleView& sample, const InterpretedStack& stack) noexcept;
  void pass_woven(const SampleView& sample, const InterpretedStack& stack);
  void apply(const MappingView& mapping, std::shared_ptr<const MappedFile> file);
  void keep_until_open(const MappingView& mapping, const MappedFile& file);
  void continue_with(const std::shared_ptr<const MappedFile>& file);
  void want_table(const CodeMapping& mapping, const FileRegions& regions,
                  TableLoader::Urgency urgency);
  bool open_again(const LateMapping& late);
  bool load_again(const MappedCode& code);
  void request_or_cover(const MappingView& mapping, const std::shared_ptr<const MappedFile>& file);
  void load_vdso();
  void load_running_code(const Programs& programs);
  void request_unless_loading(const CodeMapping& mapping);
  void load(const MappedCode& file, const std::shared_ptr<const MappedFile>& opened,
            TableLoader::Urgency urgency);
  void refuse(const MappedCode& file, TableRefusal reason);
  void count_refusal(const MappedCode& file, TableRefusal reason);
  [[nodiscard]] MappedCode mapped_code(const CodeMapping& mapping, const MappedFile* opened);
  [[nodiscard]] bool is_worth_retrying(const MappedCode& file, bool can_be_read) const;
  bool install_results(Clock::time_point end);
  bool install_late_jit_tables(Clock::time_point end);
  void install(LoadResult result);
  [[nodiscard]] std::uint16_t runtime_number(const LoadResult& result, std::uint32_t payer);
  [[nodiscard]] bool keep_until_room(LoadResult& result, TableRefusal refusal);

  MappedFiles& files_;
  UserRefusals* refusals_;
  InterpretedCodes* codes_;             // null: stacks have native frames only
  std::unique_ptr<Runtimes> runtimes_;  // of the files in tables_
  UnwindTables tables_;
  ProcessMappings mappings_;
  std::map<FileKey, MappedCode> loading_;
  // The mappings and tables that wait for a file that is being opened. The number of such files is
  // limited by the opener.
  std::map<FileKey, std::vector<LateMapping>> opening_;
  std::map<FileKey, WantedTable> wanted_;
  // By the process and the id of the mapping.
  RetryQueue<std::pair<ProcessKey, std::uint64_t>, LateMapping> late_mappings_;
  RetryQueue<FileKey, MappedCode> late_tables_;
  std::deque<LoadResult> results_;  // to be installed
  // Those that had no room while removed tables still took memory: of files, and of JIT code.
  std::vector<LoadResult> late_results_;
  std::deque<LoadResult> late_jit_tables_;
  SampleSink& next_;
  DeferredUnwinder deferred_;
  std::unique_ptr<TableLoader> loader_;
  PendingStacks pending_;
  WeaveCounts woven_counts_;
  std::uint64_t without_table_ = 0;  // InterpreterStats
  // The frames and the words of the last sample that was woven: their memory is used again.
  std::vector<std::uint64_t> woven_;
  std::vector<std::uint64_t> words_;
};

}  // namespace profd
