// One line about a recording under way, redrawn in place. Nothing at all where standard error is no
// terminal.

#pragma once

#include <chrono>

#include "ctl/output/console.h"
#include "formats/api/control_api.h"

namespace profd {

class Progress {
 public:
  explicit Progress(const Console& console) : console_(console) {}
  Progress(const Progress&) = delete;
  Progress& operator=(const Progress&) = delete;
  ~Progress() { clear(); }

  void show(const SessionInfo& session, std::uint64_t duration_ms);
  void clear();

 private:
  const Console& console_;
  bool shown_ = false;
};

}  // namespace profd
