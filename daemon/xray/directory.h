// Watches a directory in which instrumented programs leave their traces (xray-log.*). Each trace
// that its writer has closed becomes a result of the file's owner, as if a session had recorded it.
//
// Every user may be able to write there. So a file is opened without following a link and must be
// regular, a parser of its own reads the traces one by one, and the owners take turns (queue.h). An
// unprivileged owner has as many results as sessions, kept as long; while it has them its traces
// wait. The time of a stamp file beside the results says which traces are read, so that those left
// while profd did not run are found at the start. The program that wrote a trace is found by the
// pid in the trace, if it still runs; otherwise functions have numbers instead of names. On the io
// thread, of which a turn handles 64 events or entries of the directory at most.

#pragma once

#include <sys/types.h>

#include <chrono>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <string>

#include <boost/asio/awaitable.hpp>
#include <boost/asio/io_context.hpp>
#include <boost/asio/posix/stream_descriptor.hpp>
#include <boost/asio/steady_timer.hpp>

#include "collectors/files/bounded_runner.h"
#include "collectors/files/file_closer.h"
#include "collectors/host/uid_owners.h"
#include "collectors/host/user_refusals.h"
#include "collectors/parser/parser.h"
#include "daemon/storage/result_store.h"
#include "daemon/storage/store_worker.h"
#include "daemon/xray/directory_scan.h"
#include "daemon/xray/queue.h"
#include "daemon/xray/writer.h"
#include "formats/base/result.h"
#include "formats/base/unique_fd.h"

namespace profd {

class XrayDirectory {
 public:
  static constexpr std::size_t kMaxResultsOfUid = 4;  // of one uid other than 0

  // All must outlive the object. `unused_id` returns an id for a result. Traces of owners without
  // room for a result are tried again after `retry`.
  struct Parts {
    boost::asio::io_context& io;
    ResultStore& store;
    FileCloser& closer;  // of traces and programs, which their owners may have deleted
    UidOwners& owners;
    std::function<std::string()> unused_id;
    std::chrono::steady_clock::duration retry = std::chrono::seconds(10);
    UserRefusals* refusals = nullptr;  // null: refused traces are not counted by user
  };

  // `path` must exist. Starts a parser.
  static Result<std::unique_ptr<XrayDirectory>> open(const Parts& parts, const std::string& path);
  XrayDirectory(const XrayDirectory&) = delete;
  XrayDirectory& operator=(const XrayDirectory&) = delete;
  ~XrayDirectory() { stop(); }

  // Takes no more traces; the io context can run dry when the present one is read.
  void stop();

  struct Counts {
    std::uint64_t logs = 0;     // traces that became results
    std::uint64_t refused = 0;  // links, files that are no traces, too large, over a limit
    // Times that the kernel dropped events, which a scan follows, or that a scan was cut.
    std::uint64_t missed = 0;
  };
  [[nodiscard]] const Counts& counts() const { return counts_; }

 private:
  using Trace = XrayQueue::Trace;

  XrayDirectory(const Parts& parts, UniqueFd directory, UniqueFd events,
                std::unique_ptr<Parser> parser);

  boost::asio::awaitable<void> watch();
  void read_events();
  void check_creation(const std::string& name);
  void add(const std::string& name);
  void defer(const std::string& name);
  void begin_reading();
  void scan();
  void begin_scan();
  void end_scan();
  boost::asio::awaitable<void> scan_rest();
  bool add_some();
  bool add_deferred();
  void set_stamp();
  void refuse(const std::string& name, uid_t owner, const std::string& why);
  [[nodiscard]] bool has_room(uid_t user) const;
  [[nodiscard]] std::optional<Trace> next();
  boost::asio::awaitable<void> read_all();
  boost::asio::awaitable<Result<StoredResult>> read(Trace& trace);
  XrayTarget writer_of(const std::string& trace, uid_t owner, pid_t process);

  Parts parts_;
  UniqueFd directory_;
  boost::asio::posix::stream_descriptor events_;
  BoundedRunner runner_;  // of the worker
  DirectoryScan scan_;
  std::chrono::steady_clock::time_point scan_began_{};
  bool is_scanning_ = false;
  bool is_scan_wanted_ = false;  // once more, when the present one is over
  boost::asio::steady_timer scan_pause_;
  XrayQueue waiting_;
  bool is_reading_ = false;
  boost::asio::steady_timer retry_;
  std::string stamp_;                    // its path
  std::int64_t newest_ns_ = 0;           // ctime of the newest trace that was added
  std::int64_t complete_ns_ = 0;         // all traces with a ctime up to this are read
  std::uint64_t unlogged_refusals_ = 0;  // since last_logged_
  std::chrono::steady_clock::time_point last_logged_{};
  Counts counts_;
  StoreWorker worker_;
};

}  // namespace profd
