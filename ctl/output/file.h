// One output file, written with the rights of the caller. A regular file appears under its name
// only when it is complete; "-" is standard output; anything else (a pipe, a device) is written
// directly.

#pragma once

#include <string>
#include <string_view>

#include "formats/base/result.h"
#include "formats/base/unique_fd.h"

namespace profd {

class OutputFile {
 public:
  static Result<OutputFile> open(const std::string& path);

  OutputFile(OutputFile&&) = default;
  OutputFile& operator=(OutputFile&&) = delete;
  ~OutputFile();  // removes the temporary file unless commit() succeeded

  // commit() reports the first failure.
  void write(std::string_view bytes);

  // Renames the temporary file to the path. Replaces a regular file that exists there.
  [[nodiscard]] Result<void> commit();

 private:
  OutputFile() = default;

  std::string path_;
  std::string temporary_;  // empty: written directly
  UniqueFd fd_;
  int error_ = 0;  // the first errno of write()
};

}  // namespace profd
