// Exports the windows of a range as one result, step by step on the worker.
//
// Each step takes a bounded time, so that the worker can do other work in between. A window that is
// removed before it is read is not in the result. If it is removed while it is read, the profiles
// that can't be read any more are counted as lost. The export is moved to the worker for each step
// and back.

#pragma once

#include <chrono>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <set>
#include <string>
#include <vector>

#include "collectors/parser/parser.h"
#include "daemon/history/export_objects.h"
#include "daemon/history/merge.h"
#include "daemon/history/target.h"
#include "daemon/service/caller.h"
#include "daemon/storage/result_store.h"
#include "daemon/storage/result_writer.h"
#include "formats/api/session_summary.h"
#include "formats/base/result.h"

namespace profd {

struct ExportPlan {
  std::string windows_dir;
  std::string objects_dir;
  std::string results_dir;
  std::vector<std::string> windows;  // names, oldest first
  Caller caller;
  TargetRequest target;
  std::uint64_t max_bytes = 0;  // limit of the memory for samples
  StoredResult result;          // as for a session's result; the export adds the files
};

class HistoryExport {
 public:
  using Value = StoredResult;

  explicit HistoryExport(ExportPlan plan);

  // Continues for about `slice`. True: the result is complete. After an error nothing is left of
  // it.
  [[nodiscard]] Result<bool> advance(Parser& parser, std::chrono::steady_clock::duration slice);

  // The committed result. To be called after advance() returned true.
  [[nodiscard]] StoredResult take() { return std::move(plan_.result); }

 private:
  enum class Phase { kBegin, kWindows, kProfiles, kObjects, kCommit, kDone };

  Result<void> step(Parser& parser);
  Result<void> begin();
  Result<void> read_next_window();
  Result<void> end_windows();
  Result<void> write_next_profile();
  Result<void> commit();
  void note(const WindowView& view);

  ExportPlan plan_;
  Phase phase_ = Phase::kBegin;
  std::size_t next_ = 0;  // index of the next window, later of the next profile
  WindowTarget target_;
  WindowMerge merge_;
  std::vector<WindowMerge::Merged> merged_;
  std::optional<ResultWriter> writer_;
  std::optional<ExportObjects> objects_;
  SessionSummary summary_;
  std::chrono::system_clock::time_point first_start_;
  std::chrono::system_clock::time_point end_;
  std::set<std::string> taken_paths_;
};

}  // namespace profd
