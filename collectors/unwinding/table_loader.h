// Makes the unwind tables of files on its own thread with its own parser. Each request results in a
// table or a refusal.
//
// Urgent files, for which stacks wait, come before background files. Within each queue the files of
// root come first, then those of the owner who has used the least time, so that no user can delay
// the others. Limits: kMaxQueued files per queue, and 1/16 of that per owner other than root; files
// of an owner who has used kMaxTime are refused until some of it is forgotten; no table is made
// while kMaxReady results are waiting. The io thread calls the functions; it shares only the queues
// and the results with the loading thread.

#pragma once

#include <atomic>
#include <chrono>
#include <condition_variable>
#include <cstdint>
#include <deque>
#include <map>
#include <memory>
#include <mutex>
#include <string>
#include <thread>
#include <vector>

#include "collectors/files/mapped_files.h"
#include "collectors/unwinding/stats.h"
#include "formats/base/result.h"
#include "formats/base/unique_fd.h"
#include "formats/unwind/unwind_table.h"

namespace profd {

struct TableLoaderOptions {
  std::string cache_directory{};  // empty: no cache
  std::string debug_root;
};

// The bytes of a table, checked, and their view.
struct LoadedTable {
  std::string bytes;
  UnwindTableView view;
};

struct LoadResult {
  FileKey file;
  std::string content;                 // a name of what the table is made from
  std::unique_ptr<LoadedTable> table;  // null: refused
  TableRefusal refusal = TableRefusal::kVanished;
};

class TableLoader {
 public:
  static constexpr std::size_t kMaxQueued = 4096;
  static constexpr std::size_t kMaxQueuedOfOwner = kMaxQueued / 16;
  static constexpr std::size_t kMaxReady = 8;
  // Of one owner; the time used is halved every kForgetInterval.
  static constexpr std::chrono::seconds kMaxTime{5};
  static constexpr std::chrono::seconds kForgetInterval{30};

  // Starts the thread and its parser.
  static Result<std::unique_ptr<TableLoader>> start(const TableLoaderOptions& options);
  TableLoader(const TableLoader&) = delete;
  TableLoader& operator=(const TableLoader&) = delete;
  // Waits for the current file, at most for the parser's time limit.
  ~TableLoader();

  enum class Urgency { kStacksWait, kBackground };
  // False if the queue is full. `file` must have a valid descriptor.
  [[nodiscard]] bool request(std::shared_ptr<const MappedFile> file, Urgency urgency);

  // Moves a file from the background queue to the urgent one.
  void prioritize(const FileKey& file);

  // Readable while there are results.
  [[nodiscard]] int wake_fd() const { return wake_.get(); }
  [[nodiscard]] std::vector<LoadResult> take();

  [[nodiscard]] std::uint64_t parser_restarts() const { return parser_restarts_; }

 private:
  class Work;
  using Queue = std::deque<std::shared_ptr<const MappedFile>>;

  TableLoader() = default;
  void run(const std::stop_token& stop, Work& work);
  std::shared_ptr<const MappedFile> next(const std::stop_token& stop);
  [[nodiscard]] Queue::iterator fairest(Queue& queue);
  LoadResult load_in_share(Work& work, const MappedFile& file);
  void forget_some_time(std::chrono::steady_clock::time_point now);

  UniqueFd wake_;
  // Time used by owner. Only the loading thread uses it.
  std::map<std::uint32_t, std::chrono::nanoseconds> time_of_owner_;
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
