// A timeline in the Chrome trace event format, as Perfetto UI and about:tracing open it.
//
// Source: "Trace Event Format" (Google, 2016). One B and one E event a call, X for one that had
// begun before the records did, i for custom and typed events (their payload in args). Times are in
// microseconds with three decimals, counted from 1 us before the first record: whole nanoseconds,
// which no reader rounds before a trace is a hundred days long. They don't go back in a thread.

#pragma once

#include <cstdint>
#include <functional>
#include <string>
#include <string_view>
#include <unordered_map>

#include "formats/xray/listener.h"
#include "formats/xray/profile.h"

namespace profd::xray {

class TraceWriter : public Listener {
 public:
  // Takes the text in pieces of some 64 KiB.
  using Sink = std::function<void(std::string_view text)>;

  struct Options {
    std::uint64_t first_ticks = 0;  // time 0
    double ns_per_tick = 1;
  };

  TraceWriter(const Options& options, NameOf name_of, Sink sink);

  void on_enter(ThreadId thread, std::uint32_t function, std::uint64_t ticks) override;
  void on_argument(ThreadId thread, std::uint64_t value) override;
  void on_exit(ThreadId thread, std::uint32_t function, std::uint64_t ticks) override;
  void on_late_root(ThreadId thread, std::uint32_t function, std::uint64_t first_ticks,
                    std::uint64_t ticks, std::uint64_t outer) override;
  void on_event(ThreadId thread, const Event& event) override;

  // The end of the text. Nothing may follow.
  void finish();

 private:
  void begin_event(char phase, ThreadId thread, std::uint64_t ns);
  void end_call();
  [[nodiscard]] std::uint64_t ns_of(std::uint64_t ticks) const;
  [[nodiscard]] const std::string& json_name_of(std::uint32_t function);

  Options options_;
  NameOf name_of_;
  Sink sink_;
  std::unordered_map<std::uint32_t, std::string> names_;  // as JSON, with the quotes
  ThreadId thread_;                                       // whose ids are in `thread_json_`
  std::string thread_json_;
  std::string text_;
  std::uint64_t arguments_ = 0;  // of the call whose text is still open
  bool is_open_ = false;
  bool is_first_ = true;
};

}  // namespace profd::xray
