// A directory that a session is written to: all of it or nothing, with the caller's rights, over no
// file that is there.
//
// Each file appears whole under its name (temporary file, fsync, rename that refuses to replace).
// What was written is removed again by the destructor, directories that were made included, unless
// keep() was called. A path is relative and valid (is_valid_result_path). Every error is kIo and
// says what to do.

#pragma once

#include <filesystem>
#include <map>
#include <string>
#include <string_view>
#include <vector>

#include "formats/base/result.h"
#include "formats/base/unique_fd.h"

namespace profd {

// The hint of every error after which nothing is lost.
inline constexpr const char* kKept = "profd keeps the samples: run the same command again";

class OutputDirectory {
 public:
  // What can be told before anything is fetched, and without a change: `path` may be absent where
  // it can be made, but no file, not without the right to write, and no directory with a session in
  // it.
  static Result<void> check(const std::filesystem::path& path);

  // Makes the directory when it is absent. Fails before it changes anything when one of `files` is
  // there.
  static Result<OutputDirectory> open(const std::filesystem::path& path,
                                      const std::vector<std::string>& files);

  OutputDirectory(OutputDirectory&&) = default;
  OutputDirectory& operator=(OutputDirectory&&) = delete;
  ~OutputDirectory();

  Result<void> write(const std::string& path, std::string_view bytes);

  // On disk, names included.
  Result<void> sync();

  void keep();

  // Without symbolic links, as it is from the root.
  [[nodiscard]] const std::filesystem::path& absolute() const { return absolute_; }

 private:
  OutputDirectory() = default;

  Result<int> directory(const std::string& path);
  Result<void> make(const std::filesystem::path& path);

  std::filesystem::path shown_;  // as the caller named it
  std::filesystem::path absolute_;
  std::vector<std::filesystem::path> made_;  // directories above and with our own, outermost first
  std::map<std::string, UniqueFd> directories_;  // by path below our own, which is ""
  std::vector<std::string> made_below_;
  std::vector<std::string> written_;
};

}  // namespace profd
