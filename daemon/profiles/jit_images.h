// The images of the JIT code in the profiles of a session or window, one image for each profile
// with JIT code. Used on the worker.

#pragma once

#include <cstdint>
#include <set>
#include <string>

#include "collectors/parser/parser.h"
#include "daemon/profiles/jit_image_part.h"
#include "daemon/storage/result_writer.h"
#include "formats/base/address_range.h"
#include "formats/base/result.h"

namespace profd {

class JitImages {
 public:
  // The images with code and lines take at most `max_bytes` together; images beyond that have names
  // only. `parser` must outlive *this. `room` as for JitImagePart.
  JitImages(Parser& parser, std::uint64_t max_bytes, AddressRange room)
      : parser_(parser), left_(max_bytes), room_(room) {}
  JitImages(const JitImages&) = delete;
  JitImages& operator=(const JitImages&) = delete;
  virtual ~JitImages() = default;

  // The path by which a profile's mapping lines name its image. A different one for each call.
  [[nodiscard]] std::string line_path_for(const std::string& comm, std::uint32_t pid);

  // Where the functions of one profile may lie.
  [[nodiscard]] const AddressRange& room() const { return room_; }

  [[nodiscard]] Result<void> write(const std::string& line_path, const JitImagePart& part);

 private:
  // `stem` is "jit-COMM-PID", with a number when that name is taken.
  [[nodiscard]] virtual std::string line_path_of(const std::string& stem) const = 0;
  [[nodiscard]] virtual Result<void> put(const std::string& line_path,
                                         const std::string& image) = 0;

  Parser& parser_;
  std::uint64_t left_;
  AddressRange room_;
  std::set<std::string> taken_;
};

// Images of a session: objects/jit-COMM-PID.so of its result. The functions keep the addresses of
// the process where that is possible.
class ResultJitImages final : public JitImages {
 public:
  // `result` must outlive *this.
  ResultJitImages(Parser& parser, std::uint64_t max_bytes, ResultWriter& result)
      : JitImages(parser, max_bytes, {}), result_(result) {}

 private:
  [[nodiscard]] std::string line_path_of(const std::string& stem) const override;
  [[nodiscard]] Result<void> put(const std::string& line_path, const std::string& image) override;

  ResultWriter& result_;
};

}  // namespace profd
