// Makes the unwind tables of files on its own thread with its own parser, and those of JIT code.
// Each request results in a table or a refusal.
//
// Urgent files, for which stacks wait, come before background files. Within each queue the files of
// root come first, then those of the user who has used the least time, so that no user can delay
// the others. The files of subordinate uids are their user's (uid_owners.h). Limits: kMaxQueued
// files per queue, half of that for all users other than root and 1/16 for one of them, so that
// users never keep root's files out; files of a user who has used kMaxTime are refused until some
// of it is forgotten; no table is made while kMaxReady results are waiting. The io thread calls the
// functions; it shares only the queues and the results with the loading thread.
//
// Tables of JIT code are urgent. Their time counts for the order, but nothing is refused for it:
// the caller limits their number.

#pragma once

#include <atomic>
#include <chrono>
#include <condition_variable>
#include <cstdint>
#include <deque>
#include <map>
#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "collectors/files/mapped_files.h"
#include "collectors/host/uid_owners.h"
#include "collectors/unwinding/stats.h"
#include "formats/base/result.h"
#include "formats/base/unique_fd.h"
#include "formats/interpreters/runtime.h"
#include "formats/unwind/unwind_table.h"

namespace profd {

struct TableLoaderOptions {
  std::string cache_directory{};  // empty: no cache
  std::string debug_root;
  UidOwners owners{};
};

// The bytes of a table, checked, and their view.
struct LoadedTable {
  std::string bytes;
  UnwindTableView view;
};

struct LoadResult {
  FileKey file;                        // or that of an area of JIT code
  std::string content;                 // a name of what the table is made from
  std::unique_ptr<LoadedTable> table;  // null: refused
  TableRefusal refusal = TableRefusal::kVanished;
  EncodeTable encode{};    // of JIT code: what made the table; its end is awaited elsewhere
  FoundRuntime runtime{};  // the interpreter in the file; also where the table is refused
};

class TableLoader {
 public:
  static constexpr std::size_t kMaxQueued = 4096;
  static constexpr std::size_t kMaxQueuedOfUsers = kMaxQueued / 2;
  static constexpr std::size_t kMaxQueuedOfUser = kMaxQueued / 16;
  static constexpr std::size_t kMaxReady = 8;
  // Of one user; the time used is halved every kForgetInterval.
  static constexpr std::chrono::seconds kMaxTime{5};
  static constexpr std::chrono::seconds kForgetInterval{30};

  // Starts the thread and its parser.
  static Result<std::unique_ptr<TableLoader>> start(const TableLoaderOptions& options);
  TableLoader(const TableLoader&) = delete;
  TableLoader& operator=(const TableLoader&) = delete;
  // Waits for the current file, at most for the parser's time limit.
  ~TableLoader();

  enum class Urgency { kStacksWait, kBackground };
  // False if the queue has no room for another file of the owner. `file` must have a valid
  // descriptor.
  [[nodiscard]] bool request(std::shared_ptr<const MappedFile> file, Urgency urgency);

  // `encode` is called and its table checked on the loading thread. The result has it.
  void request_jit_code(const FileKey& area, std::uint32_t owner, std::string content,
                        EncodeTable encode);

  // Moves a file from the background queue to the urgent one if there is room for it.
  void prioritize(const FileKey& file);

  // Readable while there are results.
  [[nodiscard]] int wake_fd() const { return wake_.get(); }
  [[nodiscard]] std::vector<LoadResult> take();

  [[nodiscard]] std::uint64_t parser_restarts() const { return parser_restarts_; }

 private:
  class Work;
  struct Queued {
    std::shared_ptr<const MappedFile> file{};  // null: it is JIT code
    std::uint32_t user = 0;                    // whose the file or code is
    LoadResult jit_code{};                     // without a table
  };
  using Queue = std::deque<Queued>;

  // What was used by a user.
  struct Used {
    std::chrono::nanoseconds all{};
    std::chrono::nanoseconds by_files{};
  };

  explicit TableLoader(UidOwners owners) : owners_(std::move(owners)) {}
  void run(const std::stop_token& stop, Work& work);
  // None: the thread is to stop.
  std::optional<Queued> next(const std::stop_token& stop);
  [[nodiscard]] static bool has_room(const Queue& queue, std::uint32_t user);
  [[nodiscard]] Queue::iterator fairest(Queue& queue);
  LoadResult load_in_share(Work& work, Queued& queued);
  void forget_some_time(std::chrono::steady_clock::time_point now);

  UniqueFd wake_;
  UidOwners owners_;                            // only the io thread uses it
  std::map<std::uint32_t, Used> time_of_user_;  // only the loading thread uses it
  std::chrono::steady_clock::time_point forgotten_at_;
  std::atomic<std::uint64_t> parser_restarts_ = 0;
  std::mutex mutex_;  // guards the queues and ready_
  std::condition_variable_any changed_;
  Queue urgent_;
  Queue background_;
  std::vector<LoadResult> ready_;
  std::jthread thread_;  // last, so that it ends before the members that it uses
};

}  // namespace profd
