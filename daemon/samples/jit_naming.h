// Gives a session's or window's samples in JIT code their functions, before the worker gets them.
//
// It stands between the collection of JIT code (collectors/jit/processes.h) and the aggregator: it
// passes on the reports of processes and mappings, keeps processes that have ended until their
// samples are resolved, and resolves samples once all that the runtimes wrote until then has been
// read. For the io thread.

#pragma once

#include <chrono>
#include <cstdint>
#include <functional>
#include <memory>
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
  // Applies what the runtimes write until stop(). `processes` is not null; `io` must outlive *this,
  // and have finished all work before *this is destroyed.
  JitNaming(boost::asio::io_context& io, std::unique_ptr<JitProcesses> processes);
  JitNaming(const JitNaming&) = delete;
  JitNaming& operator=(const JitNaming&) = delete;

  void stop();

  void on_process(const ProcessView& process) noexcept { processes_->on_process(process); }
  void on_mapping(const MappingView& mapping) noexcept { processes_->on_mapping(mapping); }
  void on_unmap(const UnmapView& unmap) noexcept { processes_->on_unmap(unmap); }

  // The code of a process as it is known at the time of each call. Valid as long as *this.
  [[nodiscard]] JitLookup lookup(const ProcessKey& process);

  // Forgets the processes that have ended, that `needed` refuses and that no snapshot holds.
  void forget_unless(const std::function<bool(const ProcessKey&)>& needed);

  // Keeps the processes with timed samples known until resolve() of this snapshot.
  void hold(const SessionSnapshot& snapshot);

  // Reads the JIT sources to their ends, for 2 s at most, and resolves the samples. The snapshot
  // must outlive the call.
  [[nodiscard]] boost::asio::awaitable<void> resolve(SessionSnapshot& snapshot);

  // Resolves with what has been read so far, within kMaxTime of the io thread in all. When a
  // process has used up its share, its other samples stay without names, and it counts as
  // JitRefusal::kLate. The snapshot must outlive the call.
  static constexpr std::chrono::milliseconds kMaxTime{100};
  [[nodiscard]] boost::asio::awaitable<void> resolve_in_time(SessionSnapshot& snapshot);

  // Reads the JIT sources of these processes to their ends, for 2 s at most.
  [[nodiscard]] boost::asio::awaitable<void> read_to_end(std::vector<ProcessKey> processes);

  [[nodiscard]] JitStats stats() const;

 private:
  boost::asio::awaitable<void> resolve(ProcessSnapshot& process);
  [[nodiscard]] JitResolver resolver_of(ProcessSnapshot& process, JitLookup code);
  void release(const std::vector<ProcessKey>& held);
  void finish(JitResolver& resolver, ProcessSnapshot& process);
  boost::asio::awaitable<void> poll();
  boost::asio::awaitable<void> poll_on_events();
  boost::asio::awaitable<void> poll_by_time();

  std::unique_ptr<JitProcesses> processes_;
  std::multiset<ProcessKey> held_;
  boost::asio::posix::stream_descriptor events_;
  boost::asio::steady_timer timer_;
  std::chrono::seconds interval_ = JitProcesses::kIdleInterval;  // of poll_by_time(), at present
  std::uint64_t late_ = 0;                                       // processes of resolve_in_time()
  bool stopped_ = false;
};

// The processes with samples whose times are kept.
[[nodiscard]] std::vector<ProcessKey> timed_processes(const SessionSamples& samples);
[[nodiscard]] std::vector<ProcessKey> timed_processes(const SessionSnapshot& snapshot);

}  // namespace profd
