// The stage of a sample's way that makes stacks whole: it takes the records as they come from the
// rings, and passes samples with complete stacks and mappings with their opened files to the next
// stage.
//
// A sample whose stack reached a file without an unwind table waits in the deferred unwinder. The
// table is made from the file of the mapping, and installed where the BPF programs find it.
//
// Owned by the io thread; tables are made on another (table_loader.h).

#pragma once

#include <chrono>
#include <cstdint>
#include <map>
#include <memory>
#include <string>

#include "collectors/bpf/programs.h"
#include "collectors/bpf/record.h"
#include "collectors/files/mapped_files.h"
#include "collectors/unwinding/deferred_unwinder.h"
#include "collectors/unwinding/options.h"
#include "collectors/unwinding/process_mappings.h"
#include "collectors/unwinding/stats.h"
#include "collectors/unwinding/table_loader.h"
#include "collectors/unwinding/tables.h"
#include "formats/base/result.h"

namespace profd {

class Unwinding final : public RecordHandler {
 public:
  using Clock = std::chrono::steady_clock;

  // Starts the parser. `programs`, `files` and `next` must outlive the object.
  static Result<std::unique_ptr<Unwinding>> open(const Programs& programs, MappedFiles& files,
                                                 const UnwindingOptions& options, SampleSink& next);

  void on_record(const Record& record) noexcept override;

  // The rows of code that a process made, in one 4 GiB of its addresses (address >> 32), instead of
  // those that were told before; `table` is an encoded one whose offsets are the lower half. A
  // table that can't be used is none, and counted.
  void set_jit_code_rows(const ProcessKey& process, std::uint32_t owner, std::uint32_t region,
                         std::string_view table);

  // Installs what was made since, and goes on with the stacks that waited for it.
  void poll();

  // Delivers, as they stand, the stacks of sessions that wait no longer.
  void flush(std::uint32_t sessions) { deferred_.flush(sessions); }

  // Readable when poll() has something to do.
  [[nodiscard]] int wake_fd() const { return loader_->wake_fd(); }
  [[nodiscard]] std::size_t waiting() const { return deferred_.waiting(); }
  [[nodiscard]] UnwindStats stats() const;

 private:
  // A file without a table for a reason that may pass.
  struct Refused {
    TableRefusal reason;
    Clock::time_point since;
  };

  Unwinding(MappedFiles& files, std::unique_ptr<TableMaps> maps,
            std::unique_ptr<TableLoader> loader, const UnwindingOptions& options, SampleSink& next);
  void on(const SampleView& sample) noexcept { next_.on_sample(sample); }
  void on(const DeferredSampleView& sample) noexcept { deferred_.add(sample, Clock::now()); }
  void on(const MappingView& mapping) noexcept;
  void on(const ProcessView& process) noexcept { next_.on_process(process); }
  void on(const UnmapView& unmap) noexcept { next_.on_unmap(unmap); }
  void request_table_of(const MappingView& mapping, const std::shared_ptr<const MappedFile>& file);
  void load_vdso();
  void load_running_code(const Programs& programs);
  void request(const CodeFile& file, const std::shared_ptr<const MappedFile>& opened,
               TableLoader::Urgency urgency);
  void request_again(const CodeMapping& mapping);
  void refuse(const CodeFile& file, TableRefusal reason);
  [[nodiscard]] bool may_have_passed(const FileKey& file, bool can_be_read) const;
  void install(LoadResult result);

  MappedFiles& files_;
  UnwindTables tables_;
  ProcessMappings mappings_;
  std::map<FileKey, CodeFile> loading_;
  std::map<FileKey, Refused> refused_;
  SampleSink& next_;
  DeferredUnwinder deferred_;
  std::unique_ptr<TableLoader> loader_;
};

}  // namespace profd
