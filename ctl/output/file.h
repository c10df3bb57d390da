// One output file, written with the rights of the caller. A regular file appears under its name
// only when it is complete; "-" is standard output; anything else (a pipe, a device) is written
// directly.

#pragma once

#include <string>
#include <string_view>

#include "formats/base/result.h"
#include "formats/base/unique_fd.h"

namespace profd {

// What becomes of a regular file that exists at the path.
enum class ExistingFile { kRefused, kReplaced };

class OutputFile {
 public:
  // The directory of the path must be there. A pipe must have a reader. From then on, if the output
  // is written directly, SIGINT, SIGTERM and SIGHUP are not blocked: a reader may be slow.
  static Result<OutputFile> open(const std::string& path, ExistingFile existing);

  // Whether open() may succeed later. Nothing stays of it, and no reader of a pipe notices it.
  static Result<void> check(const std::string& path, ExistingFile existing);

  OutputFile(OutputFile&&) = default;
  OutputFile& operator=(OutputFile&&) = delete;
  ~OutputFile();  // removes the temporary file unless commit() succeeded

  // commit() reports the first failure.
  void write(std::string_view bytes);

  // Renames the temporary file to the path.
  [[nodiscard]] Result<void> commit();

 private:
  OutputFile() = default;
  [[nodiscard]] Result<void> move_into_place() const;

  std::string path_;
  std::string temporary_;  // empty: written directly
  ExistingFile existing_ = ExistingFile::kRefused;
  UniqueFd fd_;
  int error_ = 0;  // the first errno of write()
};

// Renames a file to a name that is free, both in `directory`. Returns 0 or an errno.
[[nodiscard]] int move_without_replacing(int directory, const char* from, const char* to);

}  // namespace profd
