// Makes the unwind tables of files, on a thread of its own with a parser of its own: files go in,
// tables or refusals come out.
//
// What stacks wait for comes before what is loaded in the background; there root's files come
// first, then those of the owner who took the least time so far, so that nobody's files hold up
// others'. Bounded: at most kMaxQueued files of each kind wait, a sixteenth of them for one owner
// but root; an owner who took kMaxTime of late has the rest refused for a while; no more is made
// while kMaxReady results wait to be taken. The io thread calls; nothing is shared but the two
// queues.

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
  std::string cache_directory{};  // empty: nothing is kept
  std::string debug_root;
};

// Bytes that were checked, and the view of them.
struct LoadedTable {
  std::string bytes;
  UnwindTableView view;
};

struct LoadResult {
  FileKey file;
  std::string content;                 // names what the table is made from
  std::unique_ptr<LoadedTable> table;  // null: refused
  TableRefusal refusal = TableRefusal::kVanished;
};

class TableLoader {
 public:
  static constexpr std::size_t kMaxQueued = 4096;
  static constexpr std::size_t kMaxQueuedOfOwner = kMaxQueued / 16;
  static constexpr std::size_t kMaxReady = 8;
  // Halved every kForgetInterval.
  static constexpr std::chrono::seconds kMaxTime{5};
  static constexpr std::chrono::seconds kForgetInterval{30};

  // Starts the thread and its parser; an error where that can't be.
  static Result<std::unique_ptr<TableLoader>> start(const TableLoaderOptions& options);
  TableLoader(const TableLoader&) = delete;
  TableLoader& operator=(const TableLoader&) = delete;
  // Waits for the file that is being read, at most as long as the parser may take.
  ~TableLoader();

  enum class Urgency { kStacksWait, kBackground };
  // False when the queue is full. `file` has a descriptor.
  [[nodiscard]] bool request(std::shared_ptr<const MappedFile> file, Urgency urgency);

  // Stacks wait for what was requested in the background.
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
  // Time that tables took, by owner; of the loading thread alone.
  std::map<std::uint32_t, std::chrono::nanoseconds> time_of_owner_;
  std::chrono::steady_clock::time_point forgotten_at_;
  std::atomic<std::uint64_t> parser_restarts_ = 0;
  std::mutex mutex_;  // of the queues
  std::condition_variable_any changed_;
  Queue urgent_;
  Queue background_;
  std::vector<LoadResult> ready_;
  std::jthread thread_;  // last: ends before what it uses
};

}  // namespace profd
