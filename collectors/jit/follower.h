// Finds JIT runtimes' files and reads them as they grow, on a thread of its own with a parser of
// its own: processes go in, what their files say comes out.
//
// A file that does not grow costs a look at its size (0.5 us), each 100 ms at first and each second
// later. One that grows is read in parts of 1 MiB, and rests as long afterwards as keeps it at a
// quarter of a core; the files of one user but root take a tenth in the long run
// (followed_files.h). A part that the parser dies of, or can't read in its time, costs the file a
// strike; the third is its last. Bounded: kMaxFiles files, kMaxFilesOfOwner of one owner but root;
// kMaxQueued processes wait; no more is read while kMaxReady results wait to be taken. The io
// thread calls; nothing is shared but the queues.

#pragma once

#include <chrono>
#include <cstdint>
#include <deque>
#include <map>
#include <memory>
#include <mutex>
#include <string>
#include <thread>
#include <variant>
#include <vector>

#include "collectors/bpf/sample.h"
#include "collectors/jit/scan.h"
#include "collectors/jit/stats.h"
#include "collectors/parser/jit_results.h"
#include "formats/base/result.h"
#include "formats/base/unique_fd.h"

namespace profd {

// What was found of a process. `look.files` are followed from here on.
struct JitProcessSeen {
  ProcessKey process;
  JitScan look;
};

// A file with a name that speaks of this pid (in some namespace) has appeared.
struct JitFileSeen {
  std::uint32_t pid = 0;
  std::uint32_t owner = 0;
  JitFileKind kind = JitFileKind::kJitDump;
};

// What stands in a file from where the last one of it ended. `epoch` grows where the file is
// another than it was: a map that was written anew.
struct JitFileGrew {
  std::shared_ptr<const JitFile> file;
  std::uint32_t epoch = 0;
  std::int64_t read_ns = 0;  // monotonic: when this was seen
  std::variant<JitDumpChunk, PerfMapChunk> chunk;
  // By place in a JitDumpChunk's events: the unwind rows of those that have some.
  std::map<std::size_t, std::vector<JitUnwindRows>> rows;
};

// No more will come of it.
struct JitFileEnded {
  JitFileId file;
  JitRefusal reason = JitRefusal::kMalformed;
};

// All that stood in the files when read_on() was called has come before this.
struct JitReadOn {
  std::uint64_t ticket = 0;
};

using JitEvent = std::variant<JitProcessSeen, JitFileSeen, JitFileGrew, JitFileEnded, JitReadOn>;

class JitFollower {
 public:
  static constexpr std::size_t kMaxFiles = 1024;
  static constexpr std::size_t kMaxFilesOfOwner = 128;
  static constexpr std::size_t kMaxQueued = 1024;
  static constexpr std::size_t kMaxReady = 16;
  static constexpr std::chrono::milliseconds kFirstInterval{100};
  static constexpr std::chrono::milliseconds kLastInterval{1000};
  static constexpr std::chrono::seconds kMaxWait{2};  // of a read_on()

  // Starts the thread, its parser and the watch of the directories; an error where that can't be.
  static Result<std::unique_ptr<JitFollower>> start(std::vector<std::string> directories);
  JitFollower(const JitFollower&) = delete;
  JitFollower& operator=(const JitFollower&) = delete;
  // Waits for the part that is being read, at most as long as the parser may take.
  ~JitFollower();

  // Whose user is not known: who has no files.
  static constexpr std::uint32_t kNobody = UINT32_MAX;
  struct Wanted {
    ProcessKey process;
    // Of its samples, for when it is gone by then, and whose thread it is that may hang.
    std::uint32_t uid = kNobody;
  };
  // Looks for a process's files. False when the queue is full.
  [[nodiscard]] bool look(const ProcessKey& process, std::uint32_t uid);

  // Nobody needs the file any more.
  void let_go(const JitFileId& file);

  // What an owner's file told took so long to take up: it counts as time for his files.
  void charge(std::uint32_t owner, std::chrono::nanoseconds time);

  // Looks for these processes' files again and reads all files to their present end, or for
  // kMaxWait; a JitReadOn with the ticket tells when.
  std::uint64_t read_on(std::vector<Wanted> processes);

  // Readable while there is news.
  [[nodiscard]] int wake_fd() const { return wake_.get(); }
  [[nodiscard]] std::vector<JitEvent> take();

  // What is counted on the thread: files, bytes_read, parser_restarts, refused.
  void add_to(JitStats& stats) const;

 private:
  class Work;
  struct Ticket {
    std::uint64_t number = 0;
    std::vector<Wanted> processes;
  };
  // What the thread was asked and has not taken up yet.
  struct Requests {
    std::deque<Wanted> looks;
    std::vector<JitFileId> let_go;
    std::map<std::uint32_t, std::chrono::nanoseconds> charges;  // by owner
    std::vector<Ticket> tickets;
  };

  JitFollower() = default;
  void run(const std::stop_token& stop, Work& work);
  void publish(const Work& work, std::vector<JitEvent> news);
  void wait(const Work& work, bool may_read) const;
  void wake_thread();

  UniqueFd wake_;             // of the io thread
  UniqueFd asked_;            // of ours
  mutable std::mutex mutex_;  // of all below
  Requests requests_;
  std::vector<JitEvent> ready_;
  JitStats stats_;
  std::uint64_t last_ticket_ = 0;
  std::jthread thread_;  // last: ends before what it uses
};

}  // namespace profd
