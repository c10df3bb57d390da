// An export: the windows of a range as one result, made step by step on the worker.
//
// Each step takes a bounded time, so that others' work gets its turn in between. A window that is
// removed before its turn is not in the result; of one that goes just then, the profiles that could
// not be read are counted as lost. Moved to the worker for each step and back.

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
  std::uint64_t max_bytes = 0;  // of samples in memory
  StoredResult result;          // what write_result() of a session wants to know of it
};

class HistoryExport {
 public:
  using Value = StoredResult;

  explicit HistoryExport(ExportPlan plan);

  // Goes on for about `slice`. True: the result is there; an error: nothing is left of it.
  [[nodiscard]] Result<bool> advance(Parser& parser, std::chrono::steady_clock::duration slice);

  // The committed result, after advance() returned true.
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
  std::size_t next_ = 0;  // window, then profile
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
