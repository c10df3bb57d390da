// Writes windows to the disk, and removes files of the history. Everything here but naming_stats()
// runs on the window worker's thread, which has a low priority for the CPU and the disk, so that
// sessions do not wait for windows.

#pragma once

#include <cstddef>
#include <memory>
#include <string>
#include <vector>

#include "collectors/host/uid_owners.h"
#include "collectors/parser/parser.h"
#include "daemon/base/shared_value.h"
#include "daemon/history/store.h"
#include "daemon/history/user_shares.h"
#include "daemon/history/window_sums.h"
#include "daemon/names/code_naming.h"
#include "daemon/names/symbol_budgets.h"
#include "daemon/profiles/entry_functions.h"
#include "daemon/profiles/pod_directory.h"
#include "daemon/profiles/pprof_builder.h"
#include "daemon/samples/snapshot.h"
#include "formats/base/result.h"

namespace profd {

class WindowWriter {
 public:
  // `parser` and `kernel` are not null; the directory exists.
  WindowWriter(
      std::string windows_dir, std::unique_ptr<Parser> parser,
      std::shared_ptr<SharedKernelSymbols> kernel = std::make_shared<SharedKernelSymbols>(),
      UidOwners owners = UidOwners());

  // Writes the complete window or nothing. The snapshot's session is the window's name.
  [[nodiscard]] Result<WindowInfo> write(const SessionSnapshot& snapshot,
                                         const UserLimits& limits = {});

  // Whether the last write() failed because the file system, or a quota, was full.
  [[nodiscard]] bool is_disk_full() const { return is_disk_full_; }

  // After the last window that was named. Any thread.
  [[nodiscard]] NamingStats naming_stats() const { return stats_.get(); }

 private:
  NamedProfile name_frames(const SessionSnapshot& snapshot, SymbolBudgets& symbols);

  WindowSums count_processes(const SessionSnapshot& snapshot, const NamedProfile& named,
                             SymbolBudgets& symbols);

  std::string windows_dir_;
  CodeNaming naming_;
  SharedValue<NamingStats> stats_;
  EntryFunctions entries_;
  UidOwners owners_;
  PodDirectory pods_;
  bool has_read_back_ = false;  // the names of the last windows
  bool is_disk_full_ = false;
};

// Returns the number of files of the directory that could not be removed. The next start of the
// daemon finds them again.
[[nodiscard]] std::size_t remove_history_files(const std::string& directory,
                                               const std::vector<std::string>& names);

}  // namespace profd
