#include "daemon/xray/directory.h"

#include <dirent.h>
#include <fcntl.h>
#include <sys/inotify.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <chrono>
#include <filesystem>
#include <memory>
#include <utility>

#include <boost/asio/as_tuple.hpp>
#include <boost/asio/co_spawn.hpp>
#include <boost/asio/detached.hpp>
#include <boost/asio/use_awaitable.hpp>
#include <spdlog/spdlog.h>

#include "collectors/xray/log_result.h"
#include "formats/api/utc_time.h"
#include "formats/base/log_text.h"

namespace profd {
namespace {

using boost::asio::posix::stream_descriptor;

constexpr auto kTuple = boost::asio::as_tuple(boost::asio::use_awaitable);
constexpr std::string_view kLogPrefix = "xray-log.";
// A trace of a GiB takes some seconds.
constexpr ParserLimits kLimits{.memory_bytes = xray::kLogMemoryBytes,
                               .answer_bytes = xray::kLogResultBytes,
                               .cpu_time = std::chrono::milliseconds(60'000),
                               .wall_time = std::chrono::milliseconds(120'000)};

// Of a directory that anyone fills.
constexpr std::size_t kMaxScanned = std::size_t{1} << 16;

// What the worker needs of the daemon's to make a trace a result.
struct Reading {
  std::string directory;  // of results
  XrayMeasurement measurement;
  UniqueFd log;
  StoredResult result;
};

Result<StoredResult> write_log(Reading& reading, Parser& parser) {
  const XrayTarget& target = reading.measurement.target;
  auto measured =
      parser.read_xray_log(reading.log.get(), target.program ? target.program->fd.get() : -1);
  if (!measured) return measured.error();
  reading.measurement.result = std::move(*measured);
  auto writer = ResultWriter::create(reading.directory);
  if (!writer) return writer.error();
  auto summary = write_xray(reading.measurement, parser, *writer);
  if (!summary) return summary.error();
  reading.result.session.samples = summary->ledger.written;
  return commit_result(std::move(*writer), std::move(*summary), std::move(reading.result));
}

SessionInfo session_of(const std::string& id, uid_t owner, pid_t process) {
  SessionInfo session;
  session.session = id;
  session.state = "ended";
  if (process > 0) session.target.pids = {static_cast<std::uint32_t>(process)};
  session.event = "xray-log";
  session.period = 1;
  session.started = utc_text(std::chrono::system_clock::now());
  session.uid = owner;
  session.targets_alive = false;
  return session;
}

}  // namespace

Result<std::unique_ptr<XrayDirectory>> XrayDirectory::open(const Parts& parts,
                                                           const std::string& path) {
  UniqueFd directory(::open(path.c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC));
  UniqueFd events(::inotify_init1(IN_CLOEXEC | IN_NONBLOCK));
  if (!directory.valid() || !events.valid() ||
      ::inotify_add_watch(events.get(), path.c_str(),
                          IN_CREATE | IN_CLOSE_WRITE | IN_MOVED_TO | IN_ONLYDIR) < 0) {
    return fail_errno("could not watch " + path);
  }
  auto parser = Parser::start(kLimits);
  if (!parser) return parser.error();
  return std::unique_ptr<XrayDirectory>(
      new XrayDirectory(parts, std::move(directory), std::move(events), std::move(*parser)));
}

XrayDirectory::XrayDirectory(const Parts& parts, UniqueFd directory, UniqueFd events,
                             std::unique_ptr<Parser> parser)
    : parts_(parts),
      directory_(std::move(directory)),
      events_(parts.io, events.release()),
      parser_(std::move(parser)),
      retry_(parts.io),
      stamp_(std::filesystem::path(parts.store.directory()).parent_path() / "xray-read") {
  struct stat status {};
  if (::stat(stamp_.c_str(), &status) == 0) {
    complete_ns_ = std::int64_t{status.st_mtim.tv_sec} * 1'000'000'000 + status.st_mtim.tv_nsec;
  }
  scan();
  boost::asio::co_spawn(parts_.io, watch(), boost::asio::detached);
}

void XrayDirectory::stop() {
  boost::system::error_code ignored;
  events_.close(ignored);
  waiting_.clear();
  retry_.cancel();
}

boost::asio::awaitable<void> XrayDirectory::watch() {
  alignas(inotify_event) std::array<char, 4096> bytes{};
  for (;;) {
    const auto [error] = co_await events_.async_wait(stream_descriptor::wait_read, kTuple);
    if (error) co_return;
    const ssize_t got = ::read(events_.native_handle(), bytes.data(), bytes.size());
    for (ssize_t at = 0; at < got;) {
      const auto* const event = reinterpret_cast<const inotify_event*>(bytes.data() + at);
      if ((event->mask & IN_Q_OVERFLOW) != 0) {
        ++counts_.missed;
        scan();
      }
      if (event->len != 0 && (event->mask & IN_CREATE) != 0) note_creation(event->name);
      if (event->len != 0 && (event->mask & IN_CREATE) == 0) take(event->name);
      at += static_cast<ssize_t>(sizeof(inotify_event) + event->len);
    }
  }
}

// Those that were changed since all were known to be taken. What was taken twice is found by the
// queue.
void XrayDirectory::scan() {
  const int fd = ::openat(directory_.get(), ".", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
  const std::unique_ptr<DIR, int (*)(DIR*)> entries(fd < 0 ? nullptr : ::fdopendir(fd), ::closedir);
  if (!entries) return spdlog::warn("{}", fail_errno("could not scan for traces").message);
  for (std::size_t i = 0; i < kMaxScanned; ++i) {
    const dirent* const entry = ::readdir(entries.get());
    if (entry == nullptr) return;
    struct stat status {};
    if (::fstatat(directory_.get(), entry->d_name, &status, AT_SYMLINK_NOFOLLOW) != 0) continue;
    if (changed_ns(status) > complete_ns_) take(entry->d_name);
  }
}

// Only when nothing more can be read: what is lost with the daemon then is found again. What waits
// for room is not: by it one owner could have the traces of all the others read twice.
void XrayDirectory::set_stamp() {
  if (std::exchange(complete_ns_, newest_ns_) == newest_ns_) return;
  const UniqueFd stamp(
      ::open(stamp_.c_str(), O_WRONLY | O_CREAT | O_NOFOLLOW | O_CLOEXEC | O_NONBLOCK, 0600));
  const timespec time{.tv_sec = complete_ns_ / 1'000'000'000,
                      .tv_nsec = complete_ns_ % 1'000'000'000};
  const timespec both[] = {time, time};
  if (stamp.valid()) (void)::futimens(stamp.get(), both);
}

// One line a second: anyone may have any number refused.
void XrayDirectory::refuse(const std::string& name, const std::string& why) {
  ++counts_.refused;
  const auto now = std::chrono::steady_clock::now();
  if (now - last_told_ < std::chrono::seconds(1)) {
    ++untold_;
    return;
  }
  last_told_ = now;
  const std::uint64_t others = std::exchange(untold_, 0);
  spdlog::warn("the trace {} is left alone: {} ({} others before)", log_text(name), log_text(why),
               others);
}

// A regular file is closed, or moved here, when it is complete. Others are never closed by who made
// them.
void XrayDirectory::note_creation(const std::string& name) {
  struct stat status {};
  if (!name.starts_with(kLogPrefix) ||
      ::fstatat(directory_.get(), name.c_str(), &status, AT_SYMLINK_NOFOLLOW) != 0) {
    return;
  }
  if (!S_ISREG(status.st_mode)) refuse(name, "it is no regular file");
}

void XrayDirectory::take(const std::string& name) {
  if (!name.starts_with(kLogPrefix)) return;
  Closed closed{
      .name = name,
      .file = UniqueFd(::openat(directory_.get(), name.c_str(),
                                O_RDONLY | O_NOFOLLOW | O_NONBLOCK | O_NOCTTY | O_CLOEXEC))};
  struct stat status {};
  if (!closed.file.valid() || ::fstat(closed.file.get(), &status) != 0) {
    return refuse(name, fail_errno("could not open it").message);
  }
  closed.owner = status.st_uid;
  newest_ns_ = std::max(newest_ns_, changed_ns(status));
  const auto added = waiting_.add(std::move(closed), status);
  if (!added) return refuse(name, added.error().message);
  if (*added) begin_reading();
}

void XrayDirectory::begin_reading() {
  retry_.cancel();
  if (std::exchange(is_reading_, true)) return;
  boost::asio::co_spawn(parts_.io, read_all(), boost::asio::detached);
}

bool XrayDirectory::has_room(uid_t owner) const {
  if (owner == 0) return true;
  const auto results = std::ranges::count_if(
      parts_.store.all(), [owner](const StoredResult* one) { return one->session.uid == owner; });
  return static_cast<std::size_t>(results) < kMaxResultsOfUid;
}

std::optional<XrayDirectory::Closed> XrayDirectory::next() {
  for (const std::string& name : waiting_.take_put_off()) take(name);
  return waiting_.next(std::chrono::steady_clock::now(),
                       [this](uid_t owner) { return has_room(owner); });
}

boost::asio::awaitable<void> XrayDirectory::read_all() {
  while (events_.is_open()) {
    if (auto closed = next()) {
      const uid_t owner = closed->owner;
      const auto begin = std::chrono::steady_clock::now();
      co_await read(std::move(*closed));
      const auto end = std::chrono::steady_clock::now();
      waiting_.spent(owner, end - begin, end);
      continue;
    }
    set_stamp();
    if (waiting_.empty()) break;
    retry_.expires_after(parts_.retry);
    (void)co_await retry_.async_wait(kTuple);
  }
  is_reading_ = false;
}

// A trace's pid is its writer's word: a process of another user is not taken at it.
XrayTarget XrayDirectory::writer_of(const Closed& closed, pid_t process) {
  if (process > 0 && effective_uid_of(process) == closed.owner) {
    auto found = find_xray_target(process, opener_);
    if (found) return std::move(*found);
  }
  XrayTarget unknown;
  unknown.pid = process;
  unknown.comm = closed.name.substr(kLogPrefix.size());
  unknown.comm.resize(std::min(unknown.comm.size(), unknown.comm.rfind('.')));
  return unknown;
}

boost::asio::awaitable<void> XrayDirectory::read(Closed closed) {
  auto ask = [&parser = *parser_, log = closed.file.get()] {
    return parser.find_xray_process(log);
  };
  const Result<std::int32_t> process = co_await worker_.run(std::move(ask));
  if (!process) {
    refuse(closed.name, process.error().message);
    co_return;
  }
  Reading reading;
  const std::string id = parts_.unused_id();
  reading.directory = parts_.store.directory();
  reading.measurement.session = id;
  reading.measurement.started = std::chrono::system_clock::now();
  reading.measurement.target = writer_of(closed, *process);
  reading.measurement.privileged = closed.owner == 0;
  reading.result.session = session_of(id, closed.owner, *process);
  reading.result.info.result = id;
  if (closed.owner != 0) reading.result.keep = kShortKeeping;
  reading.log = std::move(closed.file);
  auto work = [&parser = *parser_, reading = std::move(reading)]() mutable {
    return write_log(reading, parser);
  };
  Result<StoredResult> written = co_await worker_.run(std::move(work));
  if (!written) {
    refuse(closed.name, written.error().message);
    co_return;
  }
  ++counts_.logs;
  spdlog::info("the trace {} is result {} of uid {}", log_text(closed.name), id, closed.owner);
  parts_.store.adopt(std::move(*written));
}

}  // namespace profd
