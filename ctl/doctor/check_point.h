// A point of doctor's report in one line.

#pragma once

#include <string>
#include <utility>

#include "formats/api/check_report.h"

namespace profd {

[[nodiscard]] inline CheckPoint point(std::string name, CheckState state, std::string message,
                                      std::string hint = {}) {
  return {.name = std::move(name),
          .state = state,
          .message = std::move(message),
          .hint = std::move(hint)};
}

}  // namespace profd
