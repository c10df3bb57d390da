// A terminal that a program draws on again and again, with plain escape sequences: the alternate
// screen, without a cursor and without echo of keys.
//
// The terminal is as before when the object is destroyed or after leave(). Ctrl-C and Ctrl-Z still
// send their signals.

#pragma once

#include <termios.h>

#include <iosfwd>
#include <string>
#include <vector>

#include "formats/base/result.h"

namespace profd {

class LiveScreen {
 public:
  // `input` is a terminal, whose keys are read byte by byte; `out` writes to it, and must outlive
  // the screen.
  LiveScreen(int input, std::ostream& out);
  LiveScreen(const LiveScreen&) = delete;
  LiveScreen& operator=(const LiveScreen&) = delete;
  ~LiveScreen() { leave(); }

  void enter();
  void leave();

  // Replaces what is shown. A line that is too long is cut by the terminal.
  void show(const std::vector<std::string>& lines);

 private:
  int input_;
  std::ostream& out_;
  termios former_{};
  bool is_entered_ = false;
};

}  // namespace profd
