// Gives the samples of a session or window in code made at run time their functions, before the
// worker gets them.
//
// Between the collector that follows runtimes' files (jit_processes.h) and those who aggregate and
// write samples: it is told of all processes and mappings, keeps what is known of processes that
// are gone until their samples are resolved, and resolves them once all that the runtimes wrote
// until then is read. On the io thread.

#pragma once

#include <chrono>
#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <set>
#include <vector>

#include <boost/asio/awaitable.hpp>
#include <boost/asio/io_context.hpp>
#include <boost/asio/posix/stream_descriptor.hpp>
#include <boost/asio/steady_timer.hpp>

#include "collectors/jit/processes.h"
#include "daemon/samples/jit_samples.h"
#include "daemon/samples/snapshot.h"

namespace profd {

class JitNaming {
 public:
  // `processes` is not null.
  explicit JitNaming(std::unique_ptr<JitProcesses> processes);
  JitNaming(const JitNaming&) = delete;
  JitNaming& operator=(const JitNaming&) = delete;

  // Takes up what the runtimes write, from now to stop(). `io` must outlive *this and have run dry
  // before it goes.
  void run(boost::asio::io_context& io);
  void stop();

  void on_process(const ProcessView& process) noexcept { processes_->on_process(process); }
  void on_mapping(const MappingView& mapping) noexcept { processes_->on_mapping(mapping); }
  void on_unmap(const UnmapView& unmap) noexcept { processes_->on_unmap(unmap); }

  // Of a process by now. Valid as long as *this.
  [[nodiscard]] JitLookup lookup(const ProcessKey& process);

  // Lets go of the processes that are gone, that `needed` refuses and that nobody holds.
  void forget_unless(const std::function<bool(const ProcessKey&)>& needed);

  // The processes with timed samples stay known until resolve() of this snapshot.
  void hold(const SessionSnapshot& snapshot);

  // Reads the runtimes' files to their ends, for 2 s at most, and resolves. The snapshot must
  // outlive the call.
  [[nodiscard]] boost::asio::awaitable<void> resolve(SessionSnapshot& snapshot);

  // The same for what has been read so far. What takes longer than kMaxTime stays without names,
  // and counts as late.
  static constexpr std::chrono::milliseconds kMaxTime{100};
  void resolve_now(SessionSnapshot& snapshot);

  // Reads the files of these samples' runtimes to their ends, for 2 s at most.
  [[nodiscard]] boost::asio::awaitable<void> read_on(std::vector<ProcessKey> processes);

  [[nodiscard]] JitStats stats() const;

 private:
  boost::asio::awaitable<void> resolve(ProcessSnapshot& process);
  [[nodiscard]] JitResolver resolver_of(ProcessSnapshot& process, JitLookup code);
  void finish(JitResolver& resolver, ProcessSnapshot& process);
  boost::asio::awaitable<void> poll_on_news();
  boost::asio::awaitable<void> poll_by_time();

  std::unique_ptr<JitProcesses> processes_;
  std::multiset<ProcessKey> held_;
  std::optional<boost::asio::posix::stream_descriptor> news_;
  std::optional<boost::asio::steady_timer> timer_;
  std::uint64_t late_ = 0;  // processes of windows
  bool stopped_ = false;
};

// Those of which samples have their times kept.
[[nodiscard]] std::vector<ProcessKey> timed_processes(const SessionSamples& samples);
[[nodiscard]] std::vector<ProcessKey> timed_processes(const SessionSnapshot& snapshot);

}  // namespace profd
