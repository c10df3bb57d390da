// Where an endpoint is in the history, and what became of the windows before: the state of its file
// while profctl runs.
//
// While a window is sent, the state has what became of its profiles, and the file has it as in
// flight. Where nothing of it may have arrived, the state before it can be stored instead: a later
// process then sends the whole window, and counts it anew.
//
// After a step of the clock, windows may have names of the future. They are counted and skipped,
// and are never the position; where the position lies there already, it can be left.

#pragma once

#include <chrono>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "ctl/ship/ship_state.h"
#include "ctl/ship/windows/window_split.h"
#include "formats/base/result.h"

namespace profd {

class ShipPosition {
 public:
  enum class Saved : std::uint8_t { kAll, kWithoutWindow };

  // Begins where the file is, which is borrowed. `max_future`: how far in the future a window may
  // lie.
  ShipPosition(ShipStateFile& file, std::chrono::minutes max_future)
      : file_(file), max_future_(max_future), state_(file.state()) {}

  [[nodiscard]] const ShipState& state() const { return state_; }

  // Tries once. kWithoutWindow: the state before the present window, which is in flight no more.
  [[nodiscard]] Result<void> save(Saved what = Saved::kAll);
  [[nodiscard]] bool is_saved() const { return state_ == file_.state(); }

  // The window that was in flight when profctl ended is done, and unknown. Its name; "": none was.
  [[nodiscard]] std::string settle_in_flight();

  // The window after which the daemon is asked for others; "": for all.
  [[nodiscard]] std::string after(ShipTime now);
  [[nodiscard]] bool is_in_future(ShipTime start, ShipTime now) const {
    return start > now + max_future_;
  }
  // Whether a window of this name is left out, since it lies in the future. It is counted once,
  // though the daemon may list it many times.
  [[nodiscard]] bool skip(const std::string& name, ShipTime now);
  // Whether the position lies in the future, and was not left.
  [[nodiscard]] bool is_stuck(ShipTime now) const;
  // From here on, after() is the newest of these windows that is not in the future, which is
  // returned; "": none. That of state() stays until a window is done: the clock of a host that has
  // just started may be behind.
  std::string leave_future(const std::vector<std::string>& names, ShipTime now);

  // A window that was read, and then its profiles.
  void begin(const WindowParts& split);
  [[nodiscard]] bool is_in_flight(const std::string& name) const {
    return state_.in_flight == name;
  }
  void put_in_flight(const std::string& name) { state_.in_flight = name; }
  void count_sent(std::size_t bytes);
  void count_loss(const std::string& reason, std::size_t bytes);
  // An engine may have stored something of the window.
  void note_arrival() { may_have_arrived_ = true; }
  [[nodiscard]] bool may_have_arrived() const { return may_have_arrived_; }

  // The window is done: its profiles were settled, or it is lost as a whole.
  void finish(const std::string& name);
  void drop_window(const std::string& name, const std::string& reason);

 private:
  [[nodiscard]] bool has_future_name(const std::string& name, ShipTime now) const;

  ShipStateFile& file_;
  std::chrono::minutes max_future_;
  ShipState state_;
  std::optional<std::string> past_;  // the position, where that of state_ is in the future
  std::string newest_future_;        // of the windows in the future that are done or counted
  ShipState before_;                 // the present window
  std::string first_loss_;           // of it: the reason; "": none
  bool may_have_arrived_ = false;    // something of it
};

}  // namespace profd
