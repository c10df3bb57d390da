#include "collectors/jit/follower.h"

#include <poll.h>
#include <sys/eventfd.h>
#include <sys/prctl.h>

#include <algorithm>
#include <functional>
#include <future>
#include <map>
#include <utility>

#include "collectors/jit/followed_files.h"

namespace profd {
namespace {

using Clock = std::chrono::steady_clock;
using std::chrono::milliseconds;

// Files appear in /tmp thousands of times a second where compilers run: their names are read at
// most so often.
constexpr milliseconds kWatchInterval{50};

ParserLimits parser_limits() {
  return {.cpu_time = milliseconds(500), .wall_time = milliseconds(2000)};
}

bool is_readable(int fd) {
  pollfd readable{.fd = fd, .events = POLLIN, .revents = 0};
  return ::poll(&readable, 1, 0) == 1;
}

}  // namespace

// What the thread has to itself.
class JitFollower::Work {
 public:
  static Result<std::unique_ptr<Work>> open(const std::vector<std::string>& directories);

  // Each adds to `news`.
  void carry_out(const Requests& requests, std::vector<JitEvent>& news);
  void watch(std::vector<JitEvent>& news);
  void read_files(std::vector<JitEvent>& news);

  [[nodiscard]] pollfd watched() const;
  [[nodiscard]] Clock::duration time_to_next(bool may_read) const;
  [[nodiscard]] JitStats stats() const;

 private:
  struct Waiting {
    std::uint64_t ticket = 0;
    std::map<JitFileId, std::uint64_t> files;  // how often each was read to its end before
    Clock::time_point deadline;
  };

  Work() = default;
  void look(const Wanted& wanted, std::vector<JitEvent>& news);
  void add_held_files(const Wanted& wanted, JitScan& look);
  [[nodiscard]] bool may_have_written(const Wanted& wanted, const JitProcessFacts& facts,
                                      const WatchedPlace& place);
  void refuse(JitRefusal reason) { ++stats_.refused[static_cast<std::size_t>(reason)]; }
  void begin_ticket(const Ticket& ticket, std::vector<JitEvent>& news);
  void end_tickets(std::vector<JitEvent>& news);

  std::unique_ptr<Parser> parser_;
  BoundedRunner runner_;
  std::unique_ptr<DirectoryWatch> watch_;
  FollowedFiles files_;
  std::vector<Waiting> waiting_;
  Clock::time_point watched_at_{};
  Clock::time_point checked_at_{};
  JitStats stats_;
};

Result<std::unique_ptr<JitFollower::Work>> JitFollower::Work::open(
    const std::vector<std::string>& directories) {
  std::unique_ptr<Work> work(new Work);
  auto parser = Parser::start(parser_limits());
  if (!parser) return parser.error();
  work->parser_ = std::move(*parser);
  auto watch = DirectoryWatch::open(directories,
                                    [self = work.get()](int directory, const std::string& name,
                                                        const JitFileRules& rules) -> JitOpening {
                                      auto opening = self->runner_.run(0, [directory, name, rules] {
                                        return open_jit_file(directory, name, rules);
                                      });
                                      if (opening) return std::move(*opening);
                                      return {.file = {}, .refusal = JitRefusal::kLate};
                                    });
  if (!watch) return watch.error();
  work->watch_ = std::move(*watch);
  return work;
}

void JitFollower::Work::carry_out(const Requests& requests, std::vector<JitEvent>& news) {
  for (const JitFileId& id : requests.let_go) files_.let_go(id);
  for (const auto& [owner, time] : requests.charges) files_.charge(owner, time);
  for (const Wanted& wanted : requests.looks) look(wanted, news);
  for (const Ticket& ticket : requests.tickets) begin_ticket(ticket, news);
}

void JitFollower::Work::look(const Wanted& wanted, std::vector<JitEvent>& news) {
  auto found =
      runner_.run(wanted.uid, [process = wanted.process] { return look_for_jit_files(process); });
  JitProcessSeen seen{.process = wanted.process, .look = {}};
  if (found) {
    seen.look = std::move(*found);
  } else {
    seen.look.is_gone = false;
    seen.look.refusals.push_back(JitRefusal::kLate);
  }
  add_held_files(wanted, seen.look);
  std::vector<JitEvent> of_files;
  files_.follow(seen.look, *parser_, of_files);
  news.emplace_back(std::move(seen));
  std::ranges::move(of_files, std::back_inserter(news));
}

// Pids of other PID namespaces are ambiguous: a file of that name is the process's only where it
// sees the directory.
bool JitFollower::Work::may_have_written(const Wanted& wanted, const JitProcessFacts& facts,
                                         const WatchedPlace& place) {
  if (facts.pid_in_space == 0 || facts.pid_in_space == wanted.process.tgid) return true;
  const auto seen = runner_.run(
      wanted.uid, [process = wanted.process, place] { return is_seen_by(process, place); });
  return seen.value_or(false);
}

// What appeared under the process's name and may be gone by now.
void JitFollower::Work::add_held_files(const Wanted& wanted, JitScan& look) {
  const bool is_known = look.facts.pid_in_space != 0;
  const auto held = watch_->find(is_known ? look.facts.pid_in_space : wanted.process.tgid,
                                 is_known ? look.facts.uid : wanted.uid);
  const std::int64_t started = start_time_ns(wanted.process);
  const std::uint32_t payer = is_known ? look.facts.real_uid : wanted.uid;
  for (const auto& [file, place] : held) {
    const bool known = std::ranges::any_of(look.files, [&held_file = *file](const auto& found) {
      return is_same_file(*found, held_file);
    });
    if (known || !is_written_since(*file, started) ||
        !may_have_written(wanted, look.facts, place)) {
      continue;
    }
    auto paid = file->owner == 0 && payer != 0 ? with_payer(*file, payer) : file;
    if (paid) look.files.push_back(std::move(paid));
  }
}

void JitFollower::Work::watch(std::vector<JitEvent>& news) {
  const Clock::time_point now = Clock::now();
  if (now - checked_at_ >= DirectoryWatch::kCheckInterval) {
    checked_at_ = now;
    watch_->let_go_of_unlinked(now);
  }
  if (now - watched_at_ < kWatchInterval || !is_readable(watch_->fd())) return;
  watched_at_ = now;
  for (const auto& [pid, owner, kind] : watch_->take()) {
    news.emplace_back(JitFileSeen{.pid = pid, .owner = owner, .kind = kind});
  }
  for (const JitRefusal reason : watch_->take_refusals()) refuse(reason);
}

void JitFollower::Work::read_files(std::vector<JitEvent>& news) {
  files_.read_due(*parser_, kMaxReady, news);
  end_tickets(news);
}

void JitFollower::Work::begin_ticket(const Ticket& ticket, std::vector<JitEvent>& news) {
  Waiting waiting{.ticket = ticket.number, .files = {}, .deadline = Clock::now() + kMaxWait};
  for (const Wanted& wanted : ticket.processes) {
    if (Clock::now() >= waiting.deadline) break;
    look(wanted, news);
  }
  waiting.files = files_.hurry();
  waiting_.push_back(std::move(waiting));
}

void JitFollower::Work::end_tickets(std::vector<JitEvent>& news) {
  const Clock::time_point now = Clock::now();
  while (!waiting_.empty()) {
    const Waiting& first = waiting_.front();
    if (now < first.deadline && !files_.were_at_end_since(first.files)) return;
    news.emplace_back(JitReadOn{.ticket = first.ticket});
    waiting_.erase(waiting_.begin());
  }
}

pollfd JitFollower::Work::watched() const {
  const bool soon = Clock::now() - watched_at_ < kWatchInterval;
  return {.fd = soon ? -1 : watch_->fd(), .events = POLLIN, .revents = 0};
}

// How long there is nothing to do but for what wakes the thread.
Clock::duration JitFollower::Work::time_to_next(bool may_read) const {
  const Clock::time_point now = Clock::now();
  Clock::duration time = std::chrono::hours(1);
  if (now - watched_at_ < kWatchInterval) time = kWatchInterval;
  if (watch_->held() != 0) time = std::min<Clock::duration>(time, DirectoryWatch::kCheckInterval);
  if (may_read) time = std::min(time, files_.time_to_next(now));
  if (may_read && !waiting_.empty()) time = std::min<Clock::duration>(time, milliseconds(10));
  return std::max(time, Clock::duration::zero());
}

JitStats JitFollower::Work::stats() const {
  JitStats stats = stats_;
  files_.add_to(stats);
  stats.files += watch_->held();
  stats.parser_restarts = parser_->restarts();
  return stats;
}

Result<std::unique_ptr<JitFollower>> JitFollower::start(std::vector<std::string> directories) {
  std::unique_ptr<JitFollower> follower(new JitFollower);
  follower->wake_.reset(::eventfd(0, EFD_NONBLOCK | EFD_CLOEXEC));
  follower->asked_.reset(::eventfd(0, EFD_NONBLOCK | EFD_CLOEXEC));
  if (!follower->wake_.valid() || !follower->asked_.valid()) {
    return fail_errno("could not make an eventfd");
  }
  // The parser dies with the thread that started it, so that thread is the one that uses it.
  std::promise<Result<void>> started;
  std::future<Result<void>> outcome = started.get_future();
  follower->thread_ =
      std::jthread([&directories, &started, self = follower.get()](const std::stop_token& stop) {
        ::prctl(PR_SET_NAME, "jit-follower");
        auto work = Work::open(directories);
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
    std::vector<JitEvent> news;
    work.carry_out(requests, news);
    work.watch(news);
    if (may_read) work.read_files(news);
    publish(work, std::move(news));
    wait(work, may_read);
  }
}

void JitFollower::publish(const Work& work, std::vector<JitEvent> news) {
  const bool is_news = !news.empty();
  {
    const std::lock_guard lock(mutex_);
    std::ranges::move(news, std::back_inserter(ready_));
    stats_ = work.stats();
  }
  if (is_news) ::eventfd_write(wake_.get(), 1);
}

void JitFollower::wait(const Work& work, bool may_read) const {
  const auto time = std::chrono::ceil<milliseconds>(work.time_to_next(may_read));
  pollfd wakers[] = {{.fd = asked_.get(), .events = POLLIN, .revents = 0}, work.watched()};
  ::poll(wakers, std::size(wakers), static_cast<int>(time.count()));
  eventfd_t count = 0;
  ::eventfd_read(asked_.get(), &count);
}

void JitFollower::charge(std::uint32_t owner, std::chrono::nanoseconds time) {
  const std::lock_guard lock(mutex_);
  requests_.charges[owner] += time;
}

bool JitFollower::look(const ProcessKey& process, std::uint32_t uid) {
  {
    const std::lock_guard lock(mutex_);
    if (requests_.looks.size() >= kMaxQueued) return false;
    requests_.looks.push_back({.process = process, .uid = uid});
  }
  wake_thread();
  return true;
}

void JitFollower::let_go(const JitFileId& file) {
  {
    const std::lock_guard lock(mutex_);
    requests_.let_go.push_back(file);
  }
  wake_thread();
}

std::uint64_t JitFollower::read_on(std::vector<Wanted> processes) {
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

void JitFollower::add_to(JitStats& stats) const {
  const std::lock_guard lock(mutex_);
  stats.files = stats_.files;
  stats.following = stats_.following;
  stats.bytes_read = stats_.bytes_read;
  stats.parser_restarts = stats_.parser_restarts;
  for (std::size_t reason = 0; reason < kJitRefusalCount; ++reason) {
    stats.refused[reason] += stats_.refused[reason];
  }
}

}  // namespace profd
