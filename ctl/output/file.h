// One file that is written with the caller's rights: whole or not at all, as a compiler's -o. "-"
// is standard output; what is no regular file, such as a pipe, is written as it comes.

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
  ~OutputFile();  // without commit(), nothing is left

  // The first failure is kept for commit().
  void write(std::string_view bytes);

  // The file appears under its name, in place of one that was there.
  [[nodiscard]] Result<void> commit();

  [[nodiscard]] bool is_standard_output() const { return path_ == "-"; }

 private:
  OutputFile() = default;

  std::string path_;
  std::string temporary_;  // empty: written in place
  UniqueFd fd_;
  int error_ = 0;
};

}  // namespace profd
