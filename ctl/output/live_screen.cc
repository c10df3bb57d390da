#include "ctl/output/live_screen.h"

#include <ostream>

namespace profd {
namespace {

// The alternate screen, no cursor, no wrapping of long lines.
constexpr const char* kEnter = "\x1b[?1049h\x1b[?25l\x1b[?7l";
constexpr const char* kLeave = "\x1b[?7h\x1b[?25h\x1b[?1049l";
constexpr const char* kToTop = "\x1b[H";
constexpr const char* kClearLine = "\x1b[K";
constexpr const char* kClearBelow = "\x1b[J";

}  // namespace

LiveScreen::LiveScreen(int input, std::ostream& out) : input_(input), out_(out) { enter(); }

void LiveScreen::enter() {
  if (is_entered_ || ::tcgetattr(input_, &former_) != 0) return;
  is_entered_ = true;
  termios raw = former_;
  raw.c_lflag &= ~static_cast<tcflag_t>(ICANON | ECHO);
  raw.c_cc[VMIN] = 1;
  raw.c_cc[VTIME] = 0;
  (void)::tcsetattr(input_, TCSADRAIN, &raw);
  out_ << kEnter << std::flush;
}

void LiveScreen::leave() {
  if (!is_entered_) return;
  is_entered_ = false;
  out_ << kLeave << std::flush;
  (void)::tcsetattr(input_, TCSADRAIN, &former_);
}

void LiveScreen::show(const std::vector<std::string>& lines) {
  std::string frame = kToTop;
  for (std::size_t i = 0; i < lines.size(); ++i) {
    frame.append(i == 0 ? "" : "\r\n").append(lines[i]).append(kClearLine);
  }
  out_ << frame << kClearBelow << std::flush;
}

}  // namespace profd
