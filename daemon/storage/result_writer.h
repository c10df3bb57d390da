// Writes a result to the disk as one file: all of it or nothing.
//
// The file has the contents of the result's files one after another, then the index, a text, and a
// trailer of 24 bytes: "profdres", the offset of the index and its size, each in 64 bits
// little-endian. It is made under a temporary name beside the results, which begins with a dot;
// commit() syncs it once and renames it. A writer that is destroyed before removes it, and the next
// start removes what a killed daemon left. Used on the worker.

#pragma once

#include <cstdint>
#include <map>
#include <string>
#include <string_view>
#include <vector>

#include "daemon/storage/result_quota.h"
#include "formats/base/result.h"
#include "formats/base/unique_fd.h"

namespace profd {

// A file within that of a result.
struct PackedFile {
  std::string path;
  std::uint64_t offset = 0;
  std::uint64_t bytes = 0;
};

class ResultWriter {
 public:
  // `results_dir` must exist and belong to the daemon alone. What is written is charged to
  // `account`, until the writer is destroyed without a commit.
  static Result<ResultWriter> create(const std::string& results_dir, ResultAccount account = {});

  ResultWriter(ResultWriter&&) noexcept = default;
  ResultWriter& operator=(ResultWriter&&) = delete;
  ~ResultWriter();

  // Adds a file. `path` is NAME or DIRECTORY/NAME, chosen by the daemon, and new. kTooLarge: the
  // account has no room for it.
  Result<void> add(const std::string& path, std::string_view bytes);

  // Reads a file that was added.
  [[nodiscard]] Result<std::string> read_back(const std::string& path) const;

  [[nodiscard]] const std::vector<PackedFile>& files() const { return files_; }

  // On the disk so far.
  [[nodiscard]] std::uint64_t bytes() const { return bytes_; }

  // Ends the file with `index`, and makes it durable and visible as `name`. kBusy: it exists
  // already.
  Result<void> commit(const std::string& name, std::string_view index);

 private:
  ResultWriter(UniqueFd results, UniqueFd file, std::string name, ResultAccount account)
      : results_(std::move(results)),
        file_(std::move(file)),
        name_(std::move(name)),
        account_(std::move(account)) {}

  Result<void> append(std::string_view bytes, const std::string& what);

  UniqueFd results_;
  UniqueFd file_;
  std::string name_;  // temporary, below results_; empty: committed
  ResultAccount account_;
  std::uint64_t bytes_ = 0;
  std::vector<PackedFile> files_;
  std::map<std::string, std::size_t> places_;  // in files_, by path
};

// The index of a result's file, and where it begins. kMalformed: the file has none; kTooLarge: it
// is over `max_bytes`.
struct ResultIndex {
  std::string text;
  std::uint64_t offset = 0;
  std::uint64_t file_bytes = 0;
};
[[nodiscard]] Result<ResultIndex> read_result_index(int file, std::uint64_t max_bytes);

// Reads `bytes` at `offset`. kIo: the file ends before.
[[nodiscard]] Result<std::string> read_at(int file, std::uint64_t offset, std::uint64_t bytes);

// Removes a file, or a directory with its contents, below `parent`; links are removed, not
// followed.
Result<void> remove_tree(int parent, const std::string& name);

// Gives a file or directory another name, which begins with a dot, and returns that.
Result<std::string> hide(int parent, const std::string& name);

// Renames it first, so that a crash in between leaves nothing under its name.
Result<void> remove_whole(int parent, const std::string& name);

}  // namespace profd
