// What one worker thread names code with: its parser, the names that it has found, and the kernel's
// functions.

#pragma once

#include <memory>

#include "collectors/parser/parser.h"
#include "daemon/names/file_namer.h"
#include "daemon/names/kernel_names.h"
#include "daemon/names/name_cache.h"

namespace profd {

class CodeNaming {
 public:
  // `parser` is not null.
  explicit CodeNaming(std::unique_ptr<Parser> parser)
      : parser_(std::move(parser)), files_(*parser_, cache_) {}
  CodeNaming(const CodeNaming&) = delete;
  CodeNaming& operator=(const CodeNaming&) = delete;

  [[nodiscard]] Parser& parser() { return *parser_; }
  [[nodiscard]] FileNamer& files() { return files_; }
  [[nodiscard]] KernelNames& kernel() { return kernel_; }

 private:
  std::unique_ptr<Parser> parser_;
  NameCache cache_;
  FileNamer files_;
  KernelNames kernel_;
};

}  // namespace profd
