// Writes a timeline in the Chrome trace event format, which Perfetto UI and about:tracing open.
//
// Source: "Trace Event Format" (Google, 2016). A call has a B and an E event, or an X event if it
// had begun before the records; custom and typed events are i events with the payload in args.
// Times are microseconds with three decimals, so whole nanoseconds, since 1 us before the first
// record. Readers round them only in traces longer than a hundred days. Within a thread they do not
// go back.

#pragma once

#include <cstdint>
#include <functional>
#include <string>
#include <string_view>
#include <unordered_map>

#include "formats/xray/fdr_reader.h"
#include "formats/xray/profile.h"

namespace profd::xray {

class TraceWriter : public Listener {
 public:
  // Called with the text in chunks of about 64 KiB.
  using Sink = std::function<void(std::string_view text)>;

  struct Options {
    std::uint64_t first_ticks = 0;  // of the first record
    double ns_per_tick = 1;
  };

  TraceWriter(const Options& options, NameOf name_of, Sink sink);

  void on_enter(ThreadId thread, std::uint32_t function, std::uint64_t ticks) override;
  void on_argument(ThreadId thread, std::uint64_t value) override;
  void on_exit(ThreadId thread, std::uint32_t function, std::uint64_t ticks) override;
  void on_late_root(ThreadId thread, std::uint32_t function, std::uint64_t first_ticks,
                    std::uint64_t ticks, std::uint64_t outer) override;
  void on_event(ThreadId thread, const Event& event) override;

  // Writes the end of the text. To be called last.
  void finish();

 private:
  void begin_event(char phase, ThreadId thread, std::uint64_t ns);
  void end_call();
  [[nodiscard]] std::uint64_t ns_of(std::uint64_t ticks) const;
  [[nodiscard]] const std::string& json_name_of(std::uint32_t function);

  Options options_;
  NameOf name_of_;
  Sink sink_;
  std::unordered_map<std::uint32_t, std::string> names_;  // as JSON strings
  ThreadId thread_;                                       // of thread_json_
  std::string thread_json_;
  std::string text_;
  std::uint64_t arguments_ = 0;  // of the open call
  bool is_open_ = false;         // the text of a call has not ended
  bool is_first_ = true;
};

}  // namespace profd::xray
