// A directory in which instrumented programs leave their traces (xray-log.*): each that its writer
// has closed becomes a result of the file's owner, as if a session had recorded it.
//
// Anyone may be able to write there. A file is opened without following a link and only as a
// regular one, read by a parser of its own, one after the other on a thread of its own, the owners
// by turns (xray_queue.h); who isn't root has as many results as sessions, kept as long, and while
// he has them his traces wait. What was left while nobody watched is found at the start, by the
// time of a stamp beside the results. The program that wrote a trace is found while it still runs,
// by the pid in the trace; else its functions have no names but their numbers. On the io thread.

#pragma once

#include <sys/types.h>

#include <chrono>
#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <string>

#include <boost/asio/awaitable.hpp>
#include <boost/asio/io_context.hpp>
#include <boost/asio/posix/stream_descriptor.hpp>
#include <boost/asio/steady_timer.hpp>

#include "collectors/files/timed_opener.h"
#include "collectors/parser/parser.h"
#include "daemon/storage/result_store.h"
#include "daemon/storage/worker.h"
#include "daemon/xray/queue.h"
#include "daemon/xray/writer.h"
#include "formats/base/result.h"
#include "formats/base/unique_fd.h"

namespace profd {

class XrayDirectory {
 public:
  static constexpr std::size_t kMaxResultsOfUid = 4;  // of one uid other than 0

  // All outlive *this. `unused_id` gives an id for a result. Traces of owners without room for a
  // result are looked at again after each `retry`.
  struct Parts {
    boost::asio::io_context& io;
    ResultStore& store;
    std::function<std::string()> unused_id;
    std::chrono::steady_clock::duration retry = std::chrono::seconds(10);
  };

  // `path` must be there. Starts a parser.
  static Result<std::unique_ptr<XrayDirectory>> open(const Parts& parts, const std::string& path);
  XrayDirectory(const XrayDirectory&) = delete;
  XrayDirectory& operator=(const XrayDirectory&) = delete;
  ~XrayDirectory() { stop(); }

  // No more files; the io context runs dry when the one at hand is done.
  void stop();

  struct Counts {
    std::uint64_t logs = 0;     // that became results
    std::uint64_t refused = 0;  // links, no traces, too large, over a limit
    std::uint64_t missed = 0;   // times that the kernel dropped events; a scan followed
  };
  [[nodiscard]] const Counts& counts() const { return counts_; }

 private:
  using Closed = XrayQueue::Log;

  XrayDirectory(const Parts& parts, UniqueFd directory, UniqueFd events,
                std::unique_ptr<Parser> parser);

  boost::asio::awaitable<void> watch();
  void note_creation(const std::string& name);
  void take(const std::string& name);
  void begin_reading();
  void scan();
  void set_stamp();
  void refuse(const std::string& name, const std::string& why);
  [[nodiscard]] bool has_room(uid_t owner) const;
  [[nodiscard]] std::optional<Closed> next();
  boost::asio::awaitable<void> read_all();
  boost::asio::awaitable<void> read(Closed closed);
  XrayTarget writer_of(const Closed& closed, pid_t process);

  Parts parts_;
  UniqueFd directory_;
  boost::asio::posix::stream_descriptor events_;
  std::unique_ptr<Parser> parser_;  // the worker's
  TimedOpener opener_;
  XrayQueue waiting_;
  bool is_reading_ = false;
  boost::asio::steady_timer retry_;
  std::string stamp_;             // the path
  std::int64_t newest_ns_ = 0;    // change of what was taken
  std::int64_t complete_ns_ = 0;  // what was changed up to then is taken
  std::uint64_t untold_ = 0;      // refusals
  std::chrono::steady_clock::time_point last_told_{};
  Counts counts_;
  Worker worker_;
};

}  // namespace profd
