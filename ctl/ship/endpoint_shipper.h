// Ships the windows of the history to one endpoint, in their order.
//
// The history is the queue: one window is in memory at a time, as a file while it waits
// (unpacked_window.h), and an endpoint that fails costs nothing but time. Before a part of a window
// may arrive, the window is stored as in flight, and after the last part as done. So a window that
// is in flight when profctl is killed is known: it is counted as unknown and not sent again, since
// engines do not remove what they get twice. All other windows are sent once.
//
// A profile whose answer does not say whether it was stored is unknown too. The next one is sent
// when the endpoint has answered a request without profiles: an engine that hangs, or is down
// behind a gateway, costs one profile and not one for each try.
//
// Where the position lies in the future, after a step of the clock, it is left when the daemon has
// no window after it (ship_position.h).
//
// Windows that left the history before they were asked for are counted as gone, each once: the
// daemon names them.
//
// Each series is a request of its own, since engines take a request in part. The hosts of a fleet
// send their windows at different seconds (send_turn.h).

#pragma once

#include <chrono>
#include <deque>
#include <functional>
#include <optional>
#include <string>
#include <vector>

#include "ctl/ship/endpoint_report.h"
#include "ctl/ship/engines/engine.h"
#include "ctl/ship/send_turn.h"
#include "ctl/ship/ship_position.h"
#include "ctl/ship/ship_state.h"
#include "ctl/ship/transport/push_client.h"
#include "ctl/ship/transport/push_outcome.h"
#include "ctl/ship/windows/unpacked_window.h"
#include "ctl/ship/windows/window_split.h"
#include "formats/api/history_api.h"
#include "formats/base/result.h"
#include "formats/profile/pprof_refusal.h"

namespace profd {

// Where windows come from: the daemon.
class WindowSource {
 public:
  WindowSource() = default;
  WindowSource(const WindowSource&) = delete;
  WindowSource& operator=(const WindowSource&) = delete;
  virtual ~WindowSource() = default;

  // The names of the windows after this one, oldest first, and of those that were removed; "": all.
  // Waits for some time until there is one.
  virtual Result<WindowNames> windows_after(const std::string& name) = 0;
  // Its file. kNotFound: it is gone.
  virtual Result<std::string> window(const std::string& name) = 0;
};

class ShipClock {
 public:
  ShipClock() = default;
  ShipClock(const ShipClock&) = delete;
  ShipClock& operator=(const ShipClock&) = delete;
  virtual ~ShipClock() = default;

  [[nodiscard]] virtual ShipTime now() = 0;
  // False, at once: the program is to end.
  [[nodiscard]] virtual bool wait(std::chrono::milliseconds time) = 0;
  // In [0, 1).
  [[nodiscard]] virtual double random() = 0;
};

class EndpointShipper {
 public:
  using Log = std::function<void(const std::string& line)>;
  using Show = std::function<void(const EndpointReport& report)>;

  // References are borrowed. `log` gets a line where the endpoint begins to fail and one where it
  // works again; of one that does both by turns, once a minute. `show` gets the report, without
  // name, kind and url, at each change. `url` is for the log.
  struct Parts {
    WindowSource& source;
    const Engine& engine;
    PushClient& client;
    ShipClock& clock;
    ShipStateFile& file;
    WindowMemory& memory;
    const SplitOptions& split;
    Log log;
    Show show{};
    std::string url{};
  };
  explicit EndpointShipper(Parts parts)
      : parts_(std::move(parts)),
        position_(parts_.file, parts_.engine.traits().max_future),
        window_(parts_.memory, parts_.engine.traits().max_depth),
        phase_(send_phase(parts_.split.host)) {}

  // Until the program is to end. Of a window that has arrived in part by then, the rest is sent for
  // a minute at most, and no more once the endpoint fails; what is not sent is counted as "ended".
  void run();

 private:
  // Each returns false when the program is to end.
  [[nodiscard]] bool settle_in_flight();
  [[nodiscard]] bool ship_windows(const WindowNames& listed);
  [[nodiscard]] bool leave_future(bool has_names);
  [[nodiscard]] bool ship_window(const std::string& name);
  // An error: the window is lost.
  [[nodiscard]] bool fetch(const std::string& name, ShipTime start, Result<std::string>& file);
  [[nodiscard]] bool is_final(const Error& error);
  [[nodiscard]] bool ship_parts(const std::string& name, const WindowTime& time);
  [[nodiscard]] bool wait_for(const SendTurn& turn);
  [[nodiscard]] bool ship_part(const std::string& name);
  // Of no more samples than the engine takes: that bounds the memory.
  [[nodiscard]] PprofResult<std::string> encode(const ServicePart& part);
  // The first of the parts that wait.
  [[nodiscard]] bool send(const std::string& name, const std::string& encoded);
  // Shows since when the endpoint has it, too.
  [[nodiscard]] PushReply push(const PushMessage& message);
  // An error: it does not answer a request without profiles, or for its engine.
  [[nodiscard]] Result<void> ask();
  [[nodiscard]] bool settle(const PushOutcome& outcome, std::size_t profile_bytes);
  [[nodiscard]] bool finish(const std::string& name);
  [[nodiscard]] bool is_end_overdue();
  void leave_window();
  [[nodiscard]] bool drop_window(const std::string& name, const std::string& reason);
  // Tries until the disk takes it.
  [[nodiscard]] bool save(ShipPosition::Saved what = ShipPosition::Saved::kAll);
  // `what` begins the line in the log.
  [[nodiscard]] bool wait_after_failure(const Error& error,
                                        std::optional<std::chrono::seconds> least = {},
                                        const std::string& what = "fails");
  [[nodiscard]] bool wait_for_endpoint(const Error& error,
                                       std::optional<std::chrono::seconds> least = {});
  [[nodiscard]] bool wait_for_source(const Error& error);

  // `bytes`: its size, not packed.
  void drop_profile(const std::string& reason, std::size_t bytes);
  void drop_refused(const Error& error, std::size_t bytes);
  void drop_pending(const std::string& reason);
  // Whether the first of the parts that wait had more samples than the engine takes.
  [[nodiscard]] bool halve_large_part();
  void halve_or_drop(std::size_t bytes);
  void note_success();
  void note_source();  // it answers
  void note_failure(const Error& error, const std::string& what);
  void note_refusal(const Error& error);
  void note_unreadable(const std::string& name, const Error& error);
  void note_error(const Error& error);
  void show();
  void log_error(const std::string& what, const Error& error);
  void log_gone(std::vector<std::string>& names);  // and forgets them
  [[nodiscard]] bool is_too_old(ShipTime start);
  [[nodiscard]] std::chrono::milliseconds pause_after(std::size_t profile_bytes) const;

  Parts parts_;
  ShipPosition position_;
  UnpackedWindow window_;               // the present one
  double phase_ = 0;                    // of this host
  std::chrono::nanoseconds length_{0};  // of the last window that was read
  std::deque<ServicePart> pending_;     // of the present window
  std::chrono::milliseconds pause_{0};  // between its profiles
  bool asks_first_ = false;             // whether the endpoint answers: see above
  unsigned tries_ = 0;                  // of the first part, of a bounded number (push_outcome.h)
  std::optional<ShipTime> ending_since_;
  unsigned failures_ = 0;      // one after the other
  EndpointReport report_;      // but for the state
  ShipTime failing_since_;     // where there are failures
  bool source_fails_ = false;  // they began there
  bool is_failure_logged_ = false;
  std::optional<ShipTime> recovered_at_;
  std::string refusal_;  // that was logged last
  std::optional<ShipTime> refusal_logged_at_;
  bool is_unreadable_logged_ = false;
};

}  // namespace profd
