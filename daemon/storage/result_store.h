// Finished results: on disk under STATE_DIR/results/ID, known by id, each with its owner.
//
// The directory is the daemon's own (0700). Results survive a restart; half-written ones do not.
// The io thread owns the table; write_result() is the worker's part and needs none of it.

#pragma once

#include <chrono>
#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <vector>

#include "collectors/parser/parser.h"
#include "daemon/control/service.h"
#include "daemon/samples/snapshot.h"
#include "daemon/storage/result_writer.h"
#include "formats/api/control_api.h"
#include "formats/base/result.h"
#include "formats/base/unique_fd.h"

namespace profd {

// How long what a caller without rights left, and any dump, is kept.
inline constexpr std::chrono::seconds kShortKeeping{15 * 60};

struct StoredResult {
  SessionInfo session;  // as listed; its uid is the owner's
  ResultInfo info;
  std::uint64_t own_bytes = 0;  // of the files beside info.files
  bool is_dump = false;
  std::chrono::seconds keep{};  // 0: until it is removed
  std::chrono::system_clock::time_point created;

  [[nodiscard]] std::uint64_t bytes() const;  // on the disk
};

// Writes a result and commits it as `result.info.result`: session.json and meta.json beside the
// profiles. Fills in info.summary, info.files and own_bytes. On an error nothing of it is left; a
// directory that is gone is kIo. On the worker.
Result<StoredResult> write_result(const std::string& results_dir, const SessionSnapshot& snapshot,
                                  Parser& parser, StoredResult result);

// The same for files that are in `writer` already, and what is to be said of them.
Result<StoredResult> commit_result(ResultWriter writer, SessionSummary summary,
                                   StoredResult result);

class ResultStore {
 public:
  // Makes the directory, removes what was half-written, loads the rest.
  static Result<ResultStore> open(const std::string& results_dir);

  [[nodiscard]] const std::string& directory() const { return path_; }

  // A result that write_result() committed.
  void adopt(StoredResult result);

  // Null when there is none of that id.
  [[nodiscard]] const StoredResult* find(const std::string& id) const;
  [[nodiscard]] std::vector<const StoredResult*> all() const;

  [[nodiscard]] std::size_t dumps_of(uid_t uid) const;

  // kIo when it is not on the disk, since someone else removed it.
  [[nodiscard]] Result<void> check(const StoredResult& result) const;

  // `path` must be one of the result's files.
  [[nodiscard]] Result<OpenedFile> open_file(const StoredResult& result,
                                             const std::string& path) const;
  Result<void> remove(const std::string& id);

  // Removes those whose time is over.
  void expire();

  [[nodiscard]] std::uint64_t bytes() const;
  [[nodiscard]] std::uint64_t bytes_of(uid_t uid) const;

 private:
  struct Kept {
    StoredResult result;
    std::optional<std::chrono::steady_clock::time_point> deadline;
  };

  explicit ResultStore(std::string path) : path_(std::move(path)) {}

  Result<void> load();
  [[nodiscard]] Result<StoredResult> load_one(const std::string& id) const;

  // Opened for each use, so that results work again when the directory was removed and is back.
  [[nodiscard]] UniqueFd directory_fd() const;

  std::string path_;
  std::map<std::string, Kept> results_;
};

}  // namespace profd
