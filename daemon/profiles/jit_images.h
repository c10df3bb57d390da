// The images of the JIT and interpreted code in a session's profiles: objects/jit-COMM-PID.so of
// its result, or python-COMM-PID.so where all of it is Python's, one for each profile with such
// code. Used on the worker.

#pragma once

#include <cstdint>
#include <set>
#include <string>

#include "collectors/parser/parser.h"
#include "daemon/profiles/jit_image_part.h"
#include "daemon/storage/result_writer.h"
#include "formats/base/result.h"

namespace profd {

class JitImages {
 public:
  // The images with code and lines take at most `max_bytes` together; images beyond that have names
  // only. `parser` and `result` must outlive *this.
  JitImages(Parser& parser, std::uint64_t max_bytes, ResultWriter& result)
      : parser_(parser), left_(max_bytes), result_(result) {}
  JitImages(const JitImages&) = delete;
  JitImages& operator=(const JitImages&) = delete;

  [[nodiscard]] Parser& parser() const { return parser_; }

  // The path by which a profile's mapping lines name its image. A different one for each call.
  // `code` is JitImagePart::name().
  [[nodiscard]] std::string line_path_for(const std::string& code, const std::string& comm,
                                          std::uint32_t pid);

  [[nodiscard]] Result<void> write(const std::string& line_path, const JitImagePart& part);

 private:
  Parser& parser_;
  std::uint64_t left_;
  ResultWriter& result_;
  std::set<std::string> taken_;
};

}  // namespace profd
