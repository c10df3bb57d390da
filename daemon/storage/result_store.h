// Results: the profiles of sessions, dumps and exports, each a file STATE_DIR/results/ID, with its
// owner.
//
// The directory is the daemon's own (0700). Results survive a restart; partial ones are removed at
// the start, and those of profd 0.1, which were directories. The io thread owns the table;
// write_result() and commit_result() run on the worker and do not use it.

#pragma once

#include <chrono>
#include <cstdint>
#include <functional>
#include <map>
#include <optional>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "daemon/storage/result_writer.h"
#include "formats/api/control_api.h"
#include "formats/base/result.h"
#include "formats/base/unique_fd.h"

namespace profd {

// How long a result of an unprivileged caller, and any dump, is kept.
inline constexpr std::chrono::seconds kShortKeeping{15 * 60};

// The file of a result with the samples of all processes and their names, beside the files of its
// directory.
inline constexpr const char* kNamedProfile = "profile.pb.gz";

// A file of a result, open for reading: that many bytes at `offset`.
struct OpenedFile {
  UniqueFd fd;
  std::uint64_t offset = 0;
  std::uint64_t bytes = 0;
};

struct StoredResult {
  SessionInfo session;  // as listed; its uid is the owner's
  ResultInfo info;
  std::map<std::string, std::uint64_t> offsets;  // of info.files and the named profile
  std::uint64_t file_bytes = 0;                  // on the disk
  bool is_dump = false;                          // also of an export
  std::optional<uid_t> user;                     // the owner, if it is unprivileged
  std::chrono::seconds keep{};                   // 0: until it is removed
  std::chrono::system_clock::time_point created = std::chrono::system_clock::now();

  [[nodiscard]] std::uint64_t bytes() const { return file_bytes; }
};

// The file of a removed result that is still on the disk. Its bytes are charged to `account` until
// the file is removed.
struct HiddenResult {
  std::string name;
  ResultAccount account;
  std::uint64_t bytes = 0;
  StoredResult result{};  // what was known of it: that of thousands of files takes long to destroy
};

// Destroys these results, removes their files, and gives back the bytes of those that are removed.
// Returns the first error. On the worker.
Result<void> remove_hidden(const std::string& results_dir, std::span<HiddenResult> files);

// Adds a result's profiles and images to the writer, without committing it.
using WriteFiles = std::function<Result<SessionSummary>(ResultWriter& writer)>;

// Writes a result, charged to `account`, and commits it as `result.info.result`: the files that
// `write_files` adds, and an index. Fills in info.summary, info.files, offsets and file_bytes. On
// an error nothing of it is left; a missing directory is kIo.
Result<StoredResult> write_result(const std::string& results_dir, StoredResult result,
                                  const WriteFiles& write_files, ResultAccount account = {});

// The same where `writer` has all files already.
Result<StoredResult> commit_result(ResultWriter writer, SessionSummary summary,
                                   StoredResult result);

// Eight random hexadecimal digits, for the id of a session or a result.
[[nodiscard]] std::string random_id();

class ResultStore {
 public:
  // Makes the directory, removes partial results and those of profd 0.1, and loads the others.
  // `refusals` is that of ResultQuota.
  static Result<ResultStore> open(const std::string& results_dir, UserRefusals* refusals = nullptr);

  [[nodiscard]] const std::string& directory() const { return path_; }

  // Adds a result that was committed just now to the table. Its bytes are charged to
  // account_of(result.user) already.
  void adopt(StoredResult result);

  // For the writer of a result.
  [[nodiscard]] ResultAccount account_of(std::optional<uid_t> user) {
    return quota_.account_of(user);
  }
  void set_max_bytes(std::uint64_t max_bytes) { quota_.set_max_bytes(max_bytes); }
  [[nodiscard]] std::uint64_t refused() const { return quota_.refused(); }

  // Null when there is none of that id. The pointer is valid until the result is removed.
  [[nodiscard]] const StoredResult* find(const std::string& id) const;
  [[nodiscard]] std::vector<const StoredResult*> all() const;

  // kIo: it is not on the disk any more.
  [[nodiscard]] Result<void> check(const StoredResult& result) const;

  // kNotFound: `path` is not one of the result's files.
  [[nodiscard]] Result<OpenedFile> open_file(const StoredResult& result,
                                             const std::string& path) const;

  // A large result remains as a hidden file: see take_hidden(). After an error other than that the
  // file is gone, the result is kept.
  Result<void> remove(const std::string& id);

  // Removes results that were kept long enough.
  void expire();

  // The hidden files since the last call. They are the caller's to remove, on the worker, since
  // that takes 100 us a MiB or more; those that are left are removed by the next open().
  [[nodiscard]] std::vector<HiddenResult> take_hidden() { return std::exchange(hidden_, {}); }

  [[nodiscard]] std::uint64_t bytes() const;

 private:
  struct Kept {
    StoredResult result;
    std::optional<std::chrono::steady_clock::time_point> deadline;
  };

  ResultStore(std::string path, UserRefusals* refusals)
      : path_(std::move(path)), quota_(refusals) {}

  void add(StoredResult result, std::chrono::seconds left);
  Result<void> load(int directory);
  [[nodiscard]] Result<StoredResult> load_one(int directory, const std::string& id) const;

  // Opened for each use, so that the store works again after the directory was removed and made
  // again.
  [[nodiscard]] UniqueFd directory_fd() const;

  std::string path_;
  ResultQuota quota_;
  std::map<std::string, Kept> results_;
  std::vector<HiddenResult> hidden_;
};

}  // namespace profd
