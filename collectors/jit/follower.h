// Finds JIT sources and reads them as they grow, on a thread of its own with a parser of its own:
// processes go in, events come out.
//
// A file that does not grow costs a statx() of 0.5 us, each 100 ms at first and each second later.
// One that grows is read in parts of kJitChunkBytes, and rests after each as long as keeps it at a
// quarter of a core; the files and scans of one user other than root take a tenth of a core in the
// long run (followed_files.h). A part of which the parser dies, or that it can't read in time, is a
// strike against the file; the third strike ends it. Everything is limited: files in all and of one
// owner, processes that wait for a scan, and events that wait to be taken. The io thread calls;
// only the queues are shared.

#pragma once

#include <chrono>
#include <cstddef>
#include <cstdint>
#include <map>
#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <thread>
#include <vector>

#include "collectors/bpf/sample.h"
#include "collectors/host/uid_owners.h"
#include "collectors/jit/events.h"
#include "collectors/jit/scan_queue.h"
#include "collectors/jit/stats.h"
#include "formats/base/result.h"
#include "formats/base/unique_fd.h"

namespace profd {

class JitFollower {
 public:
  static constexpr std::size_t kMaxReady = 16;  // events to be taken; beyond it, no file is read
  static constexpr std::chrono::seconds kMaxWait{2};  // for the end of all files

  // Starts the thread, its parser and the watch of the directories. `refusals` (JitStats::users)
  // must outlive the follower; `owners` is copied.
  static Result<std::unique_ptr<JitFollower>> start(std::vector<std::string> directories,
                                                    UserRefusals* refusals = nullptr,
                                                    const UidOwners& owners = UidOwners());
  JitFollower(const JitFollower&) = delete;
  JitFollower& operator=(const JitFollower&) = delete;
  // Waits for the part that is being read, at most for the parser's time limit.
  ~JitFollower();

  // The uid of a process whose user is not known; no file belongs to it.
  static constexpr std::uint32_t kNobody = UINT32_MAX;

  // Scans a process for files. `payer` and the answer are those of ScanQueue::add().
  [[nodiscard]] std::optional<JitRefusal> scan(const WantedScan& wanted, std::uint32_t payer);

  // Ends the reading of a file that nobody needs any more.
  void release(const JitFileId& file);

  // Charges the owner of a file for the time that it took to apply its events.
  void charge(std::uint32_t owner, std::chrono::nanoseconds time);

  // Scans these processes and reads all files to their present end, for kMaxWait at most; then
  // reports JitReadToEnd with the ticket that this returns.
  std::uint64_t read_to_end(std::vector<WantedScan> processes);

  // Readable while there are events.
  [[nodiscard]] int wake_fd() const { return wake_.get(); }
  [[nodiscard]] std::vector<JitEvent> take();

  // The thread's counts: files, bytes_read, parser_restarts and refused.
  [[nodiscard]] JitStats stats() const;

 private:
  class Work;
  struct Ticket {
    std::uint64_t number = 0;
    std::vector<WantedScan> processes;
  };
  // Requests to the thread, which takes them all at once.
  struct Requests {
    ScanQueue scans;
    std::vector<JitFileId> releases;
    std::map<std::uint32_t, std::chrono::nanoseconds> charges;  // by owner
    std::vector<Ticket> tickets;
  };

  JitFollower() = default;
  void run(const std::stop_token& stop, Work& work);
  void publish(const Work& work, std::vector<JitEvent> events);
  void wait(const Work& work, bool may_read) const;
  void wake_thread();

  UniqueFd wake_;             // wakes the io thread
  UniqueFd asked_;            // wakes the follower's thread
  mutable std::mutex mutex_;  // guards the members below
  Requests requests_;
  std::vector<JitEvent> ready_;
  JitStats stats_;
  std::uint64_t last_ticket_ = 0;
  std::jthread thread_;  // the last member: the thread ends before what it uses
};

}  // namespace profd
