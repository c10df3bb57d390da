#include "collectors/jit/follower.h"

#include <poll.h>
#include <sys/eventfd.h>
#include <sys/prctl.h>

#include <algorithm>
#include <future>
#include <iterator>
#include <utility>

#include "collectors/files/bounded_runner.h"
#include "collectors/files/file_closer.h"
#include "collectors/host/idle_thread.h"
#include "collectors/jit/directory_watch.h"
#include "collectors/jit/followed_files.h"

namespace profd {
namespace {

using Clock = std::chrono::steady_clock;
using std::chrono::milliseconds;

// The shortest time between two reads of the watched directories' events: where compilers run,
// files appear in /tmp thousands of times a second.
constexpr milliseconds kWatchInterval{50};

ParserLimits parser_limits() {
  return {.cpu_time = milliseconds(500), .wall_time = milliseconds(2000)};
}

// The same file, which no thread closes that others wait for.
std::shared_ptr<const JitFile> closed_by(const FileCloser& closer, const JitFile& file) {
  JitFile copy = file;
  copy.fd = closer.closed_here(std::move(copy.fd));
  return std::make_shared<const JitFile>(std::move(copy));
}

bool is_readable(int fd) {
  pollfd readable{.fd = fd, .events = POLLIN, .revents = 0};
  return ::poll(&readable, 1, 0) == 1;
}

}  // namespace

// The state of the thread.
class JitFollower::Work {
 public:
  static Result<std::unique_ptr<Work>> open(const std::vector<std::string>& directories,
                                            UserRefusals* refusals, const UidOwners& owners);

  // Each of these adds to `events`.
  void carry_out(const Requests& requests, std::vector<JitEvent>& events);
  void watch(std::vector<JitEvent>& events);
  void read_files(std::vector<JitEvent>& events);

  [[nodiscard]] pollfd watched() const;
  [[nodiscard]] Clock::duration time_to_next(bool may_read) const;
  [[nodiscard]] JitStats stats() const;

 private:
  struct Waiting {
    std::uint64_t ticket = 0;
    std::map<JitFileId, std::uint64_t> files;  // FollowedFile::times_at_end() of each before
    Clock::time_point deadline;
  };

  explicit Work(const UidOwners& owners) : runner_(owners), files_(stats_, owners) {}
  [[nodiscard]] JitScan scan_of(const WantedScan& wanted);
  void scan(const WantedScan& wanted, std::vector<JitEvent>& events);
  void add_held_files(const WantedScan& wanted, JitScan& scan);
  [[nodiscard]] bool may_have_written(const WantedScan& wanted, const JitProcessFacts& facts,
                                      const WatchedPlace& place);
  void begin_ticket(const Ticket& ticket, std::vector<JitEvent>& events);
  void end_tickets(std::vector<JitEvent>& events);

  std::unique_ptr<Parser> parser_;
  FileCloser closer_;
  BoundedRunner runner_;
  std::unique_ptr<DirectoryWatch> watch_;
  JitStats stats_;
  FollowedFiles files_;
  std::vector<Waiting> waiting_;
  Clock::time_point watched_at_{};
  Clock::time_point checked_at_{};
};

Result<std::unique_ptr<JitFollower::Work>> JitFollower::Work::open(
    const std::vector<std::string>& directories, UserRefusals* refusals, const UidOwners& owners) {
  std::unique_ptr<Work> work(new Work(owners));
  work->stats_.users = refusals;
  auto parser = Parser::start(parser_limits());
  if (!parser) return parser.error();
  work->parser_ = std::move(*parser);
  const auto open_file = [&work = *work](int directory, const std::string& name,
                                         const JitFileRules& rules) {
    const auto open = [directory, name, rules] { return open_jit_file(directory, name, rules); };
    auto opening = work.runner_.run(0, open);
    if (!opening) return JitOpening{.refusal = JitRefusal::kLate};
    if (opening->file) opening->file = closed_by(work.closer_, *opening->file);
    return std::move(*opening);
  };
  auto watch = DirectoryWatch::open(directories, open_file, owners);
  if (!watch) return watch.error();
  work->watch_ = std::move(*watch);
  return work;
}

void JitFollower::Work::carry_out(const Requests& requests, std::vector<JitEvent>& events) {
  for (const JitFileId& id : requests.releases) files_.release(id);
  for (const auto& [owner, time] : requests.charges) files_.charge(owner, time);
  for (const WantedScan& wanted : requests.scans.scans()) scan(wanted, events);
  for (const Ticket& ticket : requests.tickets) begin_ticket(ticket, events);
}

// The user is charged for the time, which is that of the kernel to list the mappings above all.
JitScan JitFollower::Work::scan_of(const WantedScan& wanted) {
  const Clock::time_point began = Clock::now();
  auto found =
      runner_.run(wanted.uid, [process = wanted.process] { return scan_for_jit_files(process); });
  files_.charge(wanted.uid, Clock::now() - began);
  if (!found) {
    JitScan late;
    late.is_gone = false;
    late.refusals.push_back(JitRefusal::kLate);
    return late;
  }
  for (auto& file : found->files) file = closed_by(closer_, *file);
  return std::move(*found);
}

void JitFollower::Work::scan(const WantedScan& wanted, std::vector<JitEvent>& events) {
  JitProcessScanned scanned{.process = wanted.process, .scan = {}};
  if (files_.is_over_share(wanted.uid, Clock::now())) {
    scanned.scan.refusals.push_back(JitRefusal::kOverShare);
    events.emplace_back(std::move(scanned));
    return;
  }
  scanned.scan = scan_of(wanted);
  add_held_files(wanted, scanned.scan);
  std::vector<JitEvent> of_files;
  files_.follow(scanned.scan, *parser_, kMaxReady, of_files);
  events.emplace_back(std::move(scanned));
  std::ranges::move(of_files, std::back_inserter(events));
}

// A pid of another PID namespace is ambiguous: a file with its name belongs to the process only if
// the process sees the directory.
bool JitFollower::Work::may_have_written(const WantedScan& wanted, const JitProcessFacts& facts,
                                         const WatchedPlace& place) {
  if (facts.pid_in_namespace == 0 || facts.pid_in_namespace == wanted.process.tgid) return true;
  const auto seen = runner_.run(
      wanted.uid, [process = wanted.process, place] { return is_seen_by(process, place); });
  return seen.value_or(false);
}

// Adds the held files with the process's name, which may be unlinked by now.
void JitFollower::Work::add_held_files(const WantedScan& wanted, JitScan& scan) {
  const JitProcessFacts& facts = scan.facts;
  const bool is_known = facts.pid_in_namespace != 0;
  const std::uint32_t real_uid = is_known ? facts.real_uid : wanted.uid;
  const std::int64_t started = start_time_ns(wanted.process);
  const std::uint32_t pid = is_known ? facts.pid_in_namespace : wanted.process.tgid;
  for (const auto& held : watch_->find(pid, is_known ? facts.uid : wanted.uid)) {
    const JitFile& file = *held.file;
    const bool is_found = std::ranges::any_of(
        scan.files, [&file](const auto& found) { return is_same_file(*found, file); });
    if (is_found || !is_written_since(file, started) ||
        !may_have_written(wanted, facts, held.place)) {
      continue;
    }
    const bool is_roots = file.id.owner == 0 && real_uid != 0;
    scan.files.push_back(is_roots ? with_owner(file, real_uid) : held.file);
  }
}

void JitFollower::Work::watch(std::vector<JitEvent>& events) {
  const Clock::time_point now = Clock::now();
  if (now - checked_at_ >= DirectoryWatch::kCheckInterval) {
    checked_at_ = now;
    watch_->release_unlinked(now);
  }
  if (now - watched_at_ < kWatchInterval) return;
  if (!watch_->is_scanning() && !is_readable(watch_->fd())) return;
  watched_at_ = now;
  std::ranges::copy(watch_->take(stats_), std::back_inserter(events));
}

void JitFollower::Work::read_files(std::vector<JitEvent>& events) {
  files_.read_due(*parser_, kMaxReady, events);
  end_tickets(events);
}

void JitFollower::Work::begin_ticket(const Ticket& ticket, std::vector<JitEvent>& events) {
  Waiting waiting{.ticket = ticket.number, .files = {}, .deadline = Clock::now() + kMaxWait};
  for (const WantedScan& wanted : ticket.processes) {
    if (Clock::now() >= waiting.deadline) break;
    scan(wanted, events);
  }
  waiting.files = files_.make_all_due();
  waiting_.push_back(std::move(waiting));
}

void JitFollower::Work::end_tickets(std::vector<JitEvent>& events) {
  const Clock::time_point now = Clock::now();
  while (!waiting_.empty()) {
    const Waiting& first = waiting_.front();
    if (now < first.deadline && !files_.were_at_end_since(first.files)) return;
    events.emplace_back(JitReadToEnd{.ticket = first.ticket});
    waiting_.erase(waiting_.begin());
  }
}

pollfd JitFollower::Work::watched() const {
  const bool soon = Clock::now() - watched_at_ < kWatchInterval;
  return {.fd = soon ? -1 : watch_->fd(), .events = POLLIN, .revents = 0};
}

// How long the thread may sleep, unless a descriptor wakes it.
Clock::duration JitFollower::Work::time_to_next(bool may_read) const {
  const Clock::time_point now = Clock::now();
  Clock::duration time = std::chrono::hours(1);
  if (now - watched_at_ < kWatchInterval || watch_->is_scanning()) time = kWatchInterval;
  if (watch_->held() != 0) time = std::min<Clock::duration>(time, DirectoryWatch::kCheckInterval);
  if (may_read) time = std::min(time, files_.time_to_next(now));
  if (may_read && !waiting_.empty()) time = std::min<Clock::duration>(time, milliseconds(10));
  return std::max(time, Clock::duration::zero());
}

JitStats JitFollower::Work::stats() const {
  JitStats stats = stats_;
  stats.files = files_.size() + watch_->held();
  stats.parser_restarts = parser_->restarts();
  return stats;
}

Result<std::unique_ptr<JitFollower>> JitFollower::start(std::vector<std::string> directories,
                                                        UserRefusals* refusals,
                                                        const UidOwners& owners) {
  std::unique_ptr<JitFollower> follower(new JitFollower);
  follower->wake_.reset(::eventfd(0, EFD_NONBLOCK | EFD_CLOEXEC));
  follower->asked_.reset(::eventfd(0, EFD_NONBLOCK | EFD_CLOEXEC));
  if (!follower->wake_.valid() || !follower->asked_.valid()) {
    return fail_errno("could not make an eventfd");
  }
  // The parser dies with the thread that started it, so the thread that uses it starts it.
  std::promise<Result<void>> started;
  std::future<Result<void>> outcome = started.get_future();
  follower->thread_ = std::jthread([&directories, refusals, &owners, &started,
                                    self = follower.get()](const std::stop_token& stop) {
    ::prctl(PR_SET_NAME, "jit-follower");
    auto work = Work::open(directories, refusals, owners);
    const bool ready = work.has_value();
    started.set_value(ready ? Result<void>() : Result<void>(work.error()));
    if (ready) self->run(stop, **work);
  });
  if (auto ready = outcome.get(); !ready) return ready.error();
  return follower;
}

JitFollower::~JitFollower() {
  thread_.request_stop();
  if (asked_.valid()) wake_thread();
  if (thread_.joinable()) thread_.join();
}

void JitFollower::wake_thread() { ::eventfd_write(asked_.get(), 1); }

void JitFollower::run(const std::stop_token& stop, Work& work) {
  while (!stop.stop_requested()) {
    Requests requests;
    bool may_read = false;
    {
      const std::lock_guard lock(mutex_);
      requests = std::exchange(requests_, {});
      may_read = ready_.size() < kMaxReady;
    }
    std::vector<JitEvent> events;
    work.carry_out(requests, events);
    work.watch(events);
    if (may_read) work.read_files(events);
    publish(work, std::move(events));
    wait(work, may_read);
  }
}

void JitFollower::publish(const Work& work, std::vector<JitEvent> events) {
  const bool has_events = !events.empty();
  {
    const std::lock_guard lock(mutex_);
    std::ranges::move(events, std::back_inserter(ready_));
    stats_ = work.stats();
  }
  if (has_events) ::eventfd_write(wake_.get(), 1);
}

void JitFollower::wait(const Work& work, bool may_read) const {
  const auto time = std::chrono::ceil<milliseconds>(work.time_to_next(may_read));
  if (time >= kIdleAfter) return_memory_of_thread();
  pollfd wakers[] = {{.fd = asked_.get(), .events = POLLIN, .revents = 0}, work.watched()};
  ::poll(wakers, std::size(wakers), static_cast<int>(time.count()));
  eventfd_t count = 0;
  ::eventfd_read(asked_.get(), &count);
}

void JitFollower::charge(std::uint32_t owner, std::chrono::nanoseconds time) {
  const std::lock_guard lock(mutex_);
  requests_.charges[owner] += time;
}

std::optional<JitRefusal> JitFollower::scan(const WantedScan& wanted, std::uint32_t payer) {
  std::optional<JitRefusal> refusal;
  {
    const std::lock_guard lock(mutex_);
    refusal = requests_.scans.add(wanted, payer);
  }
  if (!refusal) wake_thread();
  return refusal;
}

void JitFollower::release(const JitFileId& file) {
  {
    const std::lock_guard lock(mutex_);
    requests_.releases.push_back(file);
  }
  wake_thread();
}

std::uint64_t JitFollower::read_to_end(std::vector<WantedScan> processes) {
  std::uint64_t number = 0;
  {
    const std::lock_guard lock(mutex_);
    number = ++last_ticket_;
    requests_.tickets.push_back({.number = number, .processes = std::move(processes)});
  }
  wake_thread();
  return number;
}

std::vector<JitEvent> JitFollower::take() {
  eventfd_t count = 0;
  ::eventfd_read(wake_.get(), &count);
  std::vector<JitEvent> taken;
  {
    const std::lock_guard lock(mutex_);
    taken.swap(ready_);
  }
  if (taken.size() >= kMaxReady) wake_thread();
  return taken;
}

JitStats JitFollower::stats() const {
  const std::lock_guard lock(mutex_);
  return stats_;
}

}  // namespace profd
