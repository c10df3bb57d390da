// A directory that a result is written to, with the rights of the caller: all of it or nothing, and
// no existing file is replaced.
//
// A file appears under its name only when it is complete (temporary file, fsync, a rename that
// refuses to replace). Unless keep() was called, the destructor removes every file and directory
// that was made. A path is relative and valid (is_valid_result_path). Every error is
// kPermissionDenied, where the caller may not write there, or kIo, and has a hint.

#pragma once

#include <filesystem>
#include <map>
#include <string>
#include <string_view>
#include <vector>

#include "formats/base/result.h"
#include "formats/base/unique_fd.h"

namespace profd {

// The hints of an error after which the daemon still has the samples: where the same command can
// succeed, and where the directory is the cause.
inline constexpr const char* kKept = "profd keeps the samples: run the same command again";
inline constexpr const char* kKeptElsewhere =
    "profd keeps the samples: run the command again with another directory (-o DIR)";

class OutputDirectory {
 public:
  // Whether open() and write() can work, without any change: `path` is a directory that the caller
  // may write to and that has no session.json, or it is absent and can be made.
  static Result<void> check(const std::filesystem::path& path);

  // Makes the directory if it is absent. Fails, before any change, if one of `files` exists in it.
  static Result<OutputDirectory> open(const std::filesystem::path& path,
                                      const std::vector<std::string>& files);

  OutputDirectory(OutputDirectory&&) = default;
  OutputDirectory& operator=(OutputDirectory&&) = delete;
  ~OutputDirectory();

  Result<void> write(const std::string& path, std::string_view bytes);

  // Brings the names of the files to the disk.
  Result<void> sync();

  void keep() { made_.clear(); }

  // The absolute path, without symbolic links.
  [[nodiscard]] const std::filesystem::path& absolute() const { return absolute_; }

 private:
  struct Made {
    int parent;        // an open directory, or AT_FDCWD
    std::string name;  // relative to `parent`
    bool is_directory;
  };

  OutputDirectory() = default;

  Result<void> make(const std::filesystem::path& path);
  Result<int> directory(const std::string& path);

  std::filesystem::path shown_;  // as the caller gave it
  std::filesystem::path absolute_;
  std::map<std::string, UniqueFd> directories_;  // by path; "" is the directory itself
  std::vector<Made> made_;                       // in the order in which they were made
};

}  // namespace profd
