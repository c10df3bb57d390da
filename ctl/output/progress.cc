#include "ctl/output/progress.h"

#include <ostream>

#include "ctl/output/text.h"

namespace profd {
namespace {

constexpr const char* kClearLine = "\r\x1b[K";

}  // namespace

void Progress::show(const SessionInfo& session, std::uint64_t duration_ms) {
  if (!console_.err_is_terminal) return;
  console_.err << kClearLine << "recording " << printable(describe(session.target)).substr(0, 40)
               << "  " << duration_text(session.seconds);
  if (duration_ms != 0) {
    console_.err << " of " << duration_text(static_cast<double>(duration_ms) / 1000);
  }
  console_.err << "  " << session.samples << " samples  " << session.lost << " lost" << std::flush;
  shown_ = true;
}

void Progress::clear() {
  if (shown_) console_.err << kClearLine << std::flush;
  shown_ = false;
}

}  // namespace profd
