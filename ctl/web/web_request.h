// The target of a request of the page: a path and fields, "/api/flame?since=1&unit=nginx".

#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "formats/base/result.h"

namespace profd {

// kInvalidArgument, with `name`: no number, or more than `most`.
[[nodiscard]] Result<std::uint64_t> parse_field_number(std::string_view name, std::string_view text,
                                                       std::uint64_t most);

class WebRequest {
 public:
  // kInvalidArgument: an invalid escape, or more than 256 fields.
  [[nodiscard]] static Result<WebRequest> parse(std::string_view target);

  [[nodiscard]] const std::string& path() const { return path_; }
  // Of the first field of that name; empty without one.
  [[nodiscard]] std::string_view field(std::string_view name) const;
  [[nodiscard]] std::vector<std::string> fields(std::string_view name) const;
  // `otherwise` without such a field.
  [[nodiscard]] Result<std::uint64_t> number(std::string_view name, std::uint64_t otherwise,
                                             std::uint64_t most) const;

 private:
  std::string path_;
  std::vector<std::pair<std::string, std::string>> fields_;
};

}  // namespace profd
