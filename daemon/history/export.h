// Exports the windows of a range as one result, step by step on the worker.
//
// Each step takes a bounded time, so that the worker can do other work in between. A window that is
// removed before it is read is not in the result. The steps after the last window grow with the
// result, and packing the profile with names takes longest. The export is moved to the worker for
// each step and back. While the files of a directory are written, another thread orders, encodes
// and packs the profile with names. So its session.json is made before: an export fails if the
// samples of a file, counted by reading it back from the disk, are not those that session.json
// states.
//
// The result has the samples in two forms: one gperftools profile for each process, with images
// that name their frames (daemon/profiles/named_directory.h), and one profile with names of all
// processes (kNamedProfile), whose own data is session.json. With `profile_only` it has the second
// form alone, which takes half of the time.
//
// Windows may have several periods, since a reload can change the frequency. Where one figure must
// serve for all, it is the mean: the CPU time by the number of samples.

#pragma once

#include <chrono>
#include <cstddef>
#include <cstdint>
#include <future>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "daemon/history/merge.h"
#include "daemon/history/range_files.h"
#include "daemon/history/target.h"
#include "daemon/history/windows_ahead.h"
#include "daemon/profiles/named_directory.h"
#include "daemon/service/caller.h"
#include "daemon/storage/result_store.h"
#include "daemon/storage/result_writer.h"
#include "formats/api/session_summary.h"
#include "formats/base/result.h"
#include "formats/profile/pprof_order.h"

namespace profd {

struct ExportPlan {
  std::string results_dir;
  ResultAccount account;           // of the result
  std::vector<HistoryFile> files;  // oldest first
  Caller caller;
  TargetRequest target;
  bool profile_only = false;    // no gperftools profiles and no images
  std::uint64_t max_bytes = 0;  // limit of the memory for samples
  StoredResult result;          // as for a session's result; the export adds the files
};

class HistoryExport {
 public:
  using Value = StoredResult;

  explicit HistoryExport(ExportPlan plan);

  // Continues for about `slice`. True: the result is complete. After an error nothing is left of
  // it.
  [[nodiscard]] Result<bool> advance(std::chrono::steady_clock::duration slice);

  // The committed result. To be called after advance() returned true.
  [[nodiscard]] StoredResult take() { return std::move(plan_.result); }

 private:
  enum class Phase {
    kBegin,
    kWindows,
    kDirectory,
    kProfiles,
    kImages,
    kOrder,
    kEncode,
    kPack,
    kCommit,
    kDone
  };

  Result<void> step();
  Result<void> begin();
  Result<void> read_next_window();
  Result<void> end_windows();
  Result<void> make_directory();
  void summarize_profiles();
  Result<void> write_next_profile();
  Result<void> write_next_image();
  void pack_ahead();
  void order_names();
  void encode_names();
  Result<void> pack_names();
  Result<void> commit();
  void note(const WindowView& view);
  void note_unreadable();
  void set_mean_period();
  void add_note(const std::string& text);
  [[nodiscard]] std::uint64_t period_of(const NamedDirectory::Process& process,
                                        std::uint64_t samples) const;

  ExportPlan plan_;
  Phase phase_ = Phase::kBegin;
  WindowsAhead windows_;
  std::size_t next_ = 0;  // index of the next process, later of the next image
  WindowTarget target_;
  WindowMerge merge_;
  std::unique_ptr<PprofProfile> profile_;
  std::optional<NamedDirectory> directory_;  // of *profile_
  std::future<std::string> packed_ahead_;    // of *profile_, while files are written
  std::optional<OrderedPprof> ordered_;      // of *profile_, these two without other files
  std::string encoded_;                      // without own data
  std::optional<ResultWriter> writer_;
  SessionSummary summary_;
  std::chrono::system_clock::time_point first_start_;
  std::chrono::system_clock::time_point end_;
  std::size_t unreadable_ = 0;      // windows
  bool has_periods_ = false;        // more than one
  std::uint64_t images_bytes_ = 0;  // of the images that are written
};

}  // namespace profd
