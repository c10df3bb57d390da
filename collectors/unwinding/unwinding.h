// Unwinding by tables, as the sampler sees it: it is told of mappings and gets stacks that met a
// file without a table; it has tables made, puts them where the programs find them, and gives the
// stacks back whole.
//
// Owned by the io thread; tables are made on another (table_loader.h).

#pragma once

#include <chrono>
#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <string>

#include "collectors/bpf/programs.h"
#include "collectors/files/mapped_files.h"
#include "collectors/files/process_mappings.h"
#include "collectors/unwinding/deferred_unwinder.h"
#include "collectors/unwinding/stats.h"
#include "collectors/unwinding/table_loader.h"
#include "collectors/unwinding/tables.h"
#include "formats/base/result.h"

namespace profd {

struct UnwindingOptions {
  std::string cache_directory{};                  // where tables are kept; empty: nowhere
  std::size_t max_bytes = std::size_t{40} << 20;  // of tables in the kernel
};

class Unwinding {
 public:
  using Clock = std::chrono::steady_clock;

  // Starts the parser. `programs` and `files` must outlive the object.
  static Result<std::unique_ptr<Unwinding>> open(const Programs& programs, MappedFiles& files,
                                                 const UnwindingOptions& options,
                                                 DeferredUnwinder::Deliver deliver);
  Unwinding(const Unwinding&) = delete;
  Unwinding& operator=(const Unwinding&) = delete;

  // `file` is what MappedFiles has of it.
  void on_mapping(const MappingView& mapping, const std::shared_ptr<const MappedFile>& file);
  // A sample with a late part.
  void on_deferred_sample(const SampleView& sample) { deferred_.add(sample, Clock::now()); }

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
            std::unique_ptr<TableLoader> loader, const UnwindingOptions& options,
            DeferredUnwinder::Deliver deliver);
  void load_vdso();
  void load_running_code(const Programs& programs);
  void request(const MappedCode& file, const std::shared_ptr<const MappedFile>& opened,
               TableLoader::Urgency urgency);
  void request_again(const CodeMapping& mapping);
  void refuse(const MappedCode& file, TableRefusal reason);
  [[nodiscard]] bool may_have_passed(const FileKey& file, bool can_be_read) const;
  void install(LoadResult result);

  MappedFiles& files_;
  UnwindTables tables_;
  ProcessMappings mappings_;
  std::map<FileKey, MappedCode> loading_;
  std::map<FileKey, Refused> refused_;
  DeferredUnwinder deferred_;
  std::unique_ptr<TableLoader> loader_;
};

}  // namespace profd
