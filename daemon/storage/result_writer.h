// Writes a result to the disk: all of it or nothing.
//
// The files are made in a temporary directory beside the results, whose name begins with a dot;
// commit() syncs them and renames the directory. A writer that is destroyed before removes its
// directory, and the next start removes what a killed daemon left. Used on the worker.

#pragma once

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

  // Makes a new file, 0600. `path` is NAME or DIRECTORY/NAME, chosen by the daemon.
  Result<void> add(const std::string& path, std::string_view bytes);

  // Whether add() syncs files, as it does from the start. A file that was not synced may be cut
  // after a crash of the host.
  void set_syncs_files(bool syncs) { syncs_files_ = syncs; }

  // Reads a file that was added.
  [[nodiscard]] Result<std::string> read_back(const std::string& path) const;

  [[nodiscard]] const std::vector<ResultFile>& files() const { return files_; }

  // The descriptor of the temporary directory.
  [[nodiscard]] int directory() const { return directory_.get(); }

  // Makes all files visible as the directory `name`, and durable, except for the contents of files
  // that were not synced. kBusy: it exists already.
  Result<void> commit(const std::string& name);

 private:
  ResultWriter(UniqueFd results, UniqueFd directory, std::string name)
      : results_(std::move(results)), directory_(std::move(directory)), name_(std::move(name)) {}

  Result<void> add_directory_of(const std::string& path);

  UniqueFd results_;
  UniqueFd directory_;  // of the files
  std::string name_;    // temporary, below results_; empty: committed
  std::vector<std::string> subdirectories_;
  std::vector<ResultFile> files_;
  bool syncs_files_ = true;
};

// Removes a file, or a directory with its contents, below `parent`; links are removed, not
// followed.
Result<void> remove_tree(int parent, const std::string& name);

// Gives a file or directory another name, which begins with a dot, and returns that.
Result<std::string> hide(int parent, const std::string& name);

// Renames it first, so that a crash in between leaves nothing under its name.
Result<void> remove_whole(int parent, const std::string& name);

}  // namespace profd
