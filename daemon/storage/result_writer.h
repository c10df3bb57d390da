// A result on its way to the disk: all of it or nothing.
//
// Files are made in a directory of their own beside the results, whose name starts with a dot;
// commit() syncs them and renames the directory into place. A writer that goes away before takes
// its directory along, and what a killed daemon left is removed at the next start. Used on the
// worker.

#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "formats/api/control_api.h"
#include "formats/base/result.h"
#include "formats/base/unique_fd.h"

namespace profd {

class ResultWriter {
 public:
  // `results_dir` must exist and belong to the daemon alone.
  static Result<ResultWriter> create(const std::string& results_dir);

  ResultWriter(ResultWriter&&) noexcept = default;
  ResultWriter& operator=(ResultWriter&&) = delete;
  ~ResultWriter();

  // A new file, 0600. `path` is NAME or DIRECTORY/NAME, chosen by the daemon.
  Result<void> add(const std::string& path, std::string_view bytes);

  // What is on the disk of a file that was added.
  [[nodiscard]] Result<std::string> read_back(const std::string& path) const;

  [[nodiscard]] const std::vector<ResultFile>& files() const { return files_; }

  // Makes everything durable and visible as `name`. kBusy when there is one of that name.
  Result<void> commit(const std::string& name);

 private:
  ResultWriter(UniqueFd results, UniqueFd directory, std::string name)
      : results_(std::move(results)), directory_(std::move(directory)), name_(std::move(name)) {}

  Result<void> add_directory_of(const std::string& path);

  UniqueFd results_;
  UniqueFd directory_;  // of the files
  std::string name_;    // below results_; temporary
  std::vector<std::string> subdirectories_;
  std::vector<ResultFile> files_;
};

// Below `parent`, with all that is in it; links are removed, not followed.
Result<void> remove_tree(int parent, const std::string& name);

// The same, renamed first, so that a crash in between leaves nothing that looks whole.
Result<void> remove_whole(int parent, const std::string& name);

}  // namespace profd
