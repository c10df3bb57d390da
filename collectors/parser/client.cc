#include "collectors/parser/client.h"

#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <time.h>

#include <algorithm>
#include <cerrno>
#include <utility>

#include "collectors/parser/results.h"
#include "collectors/sandbox/packets.h"
#include "formats/base/cursor.h"

namespace profd {
namespace parser {
namespace {

using Clock = std::chrono::steady_clock;
using std::chrono::milliseconds;
using std::chrono::nanoseconds;

constexpr milliseconds kLook{20};  // how often a busy child's clock is read
constexpr milliseconds kStartLimit{5000};
constexpr milliseconds kEndLimit{200};
// Killed ones that hang in a read that a file system does not end.
constexpr std::size_t kMaxStuck = 4;
constexpr std::uint32_t kUnknownOwner = UINT32_MAX;

// 0 for a process that is gone.
nanoseconds cpu_time_of(pid_t process) {
  clockid_t clock = 0;
  timespec time{};
  if (::clock_getcpuclockid(process, &clock) != 0 || ::clock_gettime(clock, &time) != 0) return {};
  return std::chrono::seconds(time.tv_sec) + nanoseconds(time.tv_nsec);
}

// Whether it is reaped. One that hangs in the kernel is not within any time.
bool reap(pid_t process, milliseconds limit) {
  const UniqueFd handle(static_cast<int>(::syscall(SYS_pidfd_open, process, 0)));
  pollfd over{.fd = handle.get(), .events = POLLIN, .revents = 0};
  if (handle.valid()) ::poll(&over, 1, static_cast<int>(limit.count()));
  return ::waitpid(process, nullptr, WNOHANG) != 0;
}

// Without asking its file system, which may not answer.
std::uint32_t owner_of(int fd) {
  struct statx status {};
  const bool is_known =
      ::statx(fd, "", AT_EMPTY_PATH | AT_STATX_DONT_SYNC, STATX_UID, &status) == 0 &&
      (status.stx_mask & STATX_UID) != 0;
  return is_known ? status.stx_uid : kUnknownOwner;
}

class Client final : public Parser {
 public:
  Client(const ParserLimits& limits, SpawnChild spawn)
      : limits_(limits), spawn_(std::move(spawn)) {}
  Client(const Client&) = delete;
  Client& operator=(const Client&) = delete;
  ~Client() override { end_child(); }

  Result<void> ensure_child();

  Result<UnwindSource> read_unwind_source(int fd, const DigestKey& key) override;
  Result<std::string> make_unwind_table(int fd, int debug_fd) override;
  Result<ElfSummary> read_elf_summary(int fd) override;
  Result<std::vector<ElfSymbol>> find_elf_symbols(int fd, std::span<const std::uint64_t> addresses,
                                                  SymbolBudget& budget) override;
  Result<std::vector<ElfSymbol>> list_elf_functions(int fd) override;
  Result<JitDumpChunk> read_jitdump(int fd, const JitDumpState& state) override;
  Result<PerfMapChunk> read_perf_map(int fd, const PerfMapState& state) override;
  Result<JitCodeAnswers> read_jit_code(int fd, const JitDumpState& state,
                                       std::span<const JitCodeQuery> queries) override;
  Result<JitUnwindAnswers> read_jit_unwind_rows(int fd, const JitDumpState& state,
                                                std::span<const JitUnwindQuery> queries) override;

  Result<std::int32_t> find_xray_process(int log) override;
  Result<UniqueFd> read_xray_log(int log, int program) override;
  [[nodiscard]] pid_t child() const override { return child_; }
  [[nodiscard]] std::uint64_t restarts() const override { return restarts_; }

 private:
  struct Stuck {
    pid_t process = -1;
    std::uint32_t owner = 0;  // of the file
  };
  [[nodiscard]] bool is_stuck_for(std::uint32_t owner);
  void forget_unstuck();
  Result<void> start_child();
  void end_child();
  Result<std::string> call(const Request& request, std::span<const int> files);
  Result<std::string> call_with(Operation operation, int fd, std::string_view argument);
  bool send(const Request& request, std::span<const int> files);
  Result<std::string> receive(milliseconds cpu_limit, milliseconds wall_limit);
  Result<void> wait_for_answer(milliseconds cpu_limit, milliseconds wall_limit) const;
  Result<std::string> read_answer();

  ParserLimits limits_;
  SpawnChild spawn_;
  UniqueFd socket_;
  pid_t child_ = -1;
  bool started_once_ = false;
  std::uint64_t restarts_ = 0;
  std::uint32_t owner_ = 0;  // of the file that is being read
  std::vector<Stuck> stuck_;
};

Result<void> Client::ensure_child() {
  if (child_ > 0) return {};
  forget_unstuck();
  if (stuck_.size() >= kMaxStuck) {
    return fail(ErrorCode::kBusy, "too many parsers hang in file systems that don't answer");
  }
  auto started = start_child();
  if (!started) end_child();
  if (started && std::exchange(started_once_, true)) ++restarts_;
  return started;
}

void Client::forget_unstuck() {
  std::erase_if(stuck_,
                [](const Stuck& stuck) { return ::waitpid(stuck.process, nullptr, WNOHANG) != 0; });
}

// One user but root holds one of them, or he alone could hold all.
bool Client::is_stuck_for(std::uint32_t owner) {
  forget_unstuck();
  return owner != 0 && std::ranges::find(stuck_, owner, &Stuck::owner) != stuck_.end();
}

Result<void> Client::start_child() {
  int ends[2];
  if (::socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, ends) != 0) {
    return fail_errno("could not make a socket pair");
  }
  socket_.reset(ends[0]);
  UniqueFd theirs(ends[1]);
  const auto child = spawn_(theirs.get());
  if (!child) return child.error();
  theirs.reset();  // or its end would not be seen
  child_ = *child;
  const Request request{.operation = Operation::kStart,
                        .words = {limits_.memory_bytes, limits_.answer_bytes}};
  (void)send(request, {});  // to one that is gone already: then no answer comes
  const auto answer = receive(kStartLimit, kStartLimit);
  if (!answer) return answer.error();
  return {};
}

void Client::end_child() {
  socket_.reset();
  if (child_ <= 0) return;
  ::kill(child_, SIGKILL);
  if (!reap(child_, kEndLimit)) stuck_.push_back({.process = child_, .owner = owner_});
  child_ = -1;
}

bool Client::send(const Request& request, std::span<const int> files) {
  return send_packet(socket_.get(), {reinterpret_cast<const char*>(&request), sizeof request},
                     files);
}

Result<std::string> Client::call(const Request& request, std::span<const int> files) {
  owner_ = files.empty() ? 0 : owner_of(files.front());
  if (is_stuck_for(owner_)) {
    return fail(ErrorCode::kBusy, "a parser hangs in a file of the same owner");
  }
  if (auto ready = ensure_child(); !ready) return ready.error();
  if (!send(request, files)) {
    // It died between two requests: no fault of this one.
    end_child();
    if (auto ready = ensure_child(); !ready) return ready.error();
    (void)send(request, files);
  }
  return receive(limits_.cpu_time, limits_.wall_time);
}

// An answer, which may be an error; or the end of a child that gave none.
Result<std::string> Client::receive(milliseconds cpu_limit, milliseconds wall_limit) {
  if (auto there = wait_for_answer(cpu_limit, wall_limit); !there) {
    end_child();
    return there.error();
  }
  return read_answer();
}

Result<void> Client::wait_for_answer(milliseconds cpu_limit, milliseconds wall_limit) const {
  const Clock::time_point end = Clock::now() + wall_limit;
  const nanoseconds cpu_end = cpu_time_of(child_) + cpu_limit;
  for (;;) {
    pollfd answer{.fd = socket_.get(), .events = POLLIN, .revents = 0};
    const int ready = ::poll(&answer, 1, static_cast<int>(kLook.count()));
    if (ready > 0) return {};
    if (ready < 0 && errno != EINTR) return fail_errno("could not wait for the parser");
    if (cpu_time_of(child_) > cpu_end) {
      return fail(ErrorCode::kTimeout, "the file takes too much time to parse");
    }
    if (Clock::now() >= end) {
      return fail(ErrorCode::kTimeout, "the file is not read within the time limit");
    }
  }
}

Result<std::string> Client::read_answer() {
  Answer answer;
  auto received = receive_packet(socket_.get(), {reinterpret_cast<char*>(&answer), sizeof answer});
  if (received && received->bytes == sizeof answer) {
    if (auto error = error_of(answer)) return std::move(*error);
    if (answer.status == 0 && received->descriptors.size() == 1) {
      auto bytes = read_sealed(received->descriptors[0].get(), limits_.answer_bytes);
      if (!bytes) end_child();
      return bytes;
    }
  }
  end_child();
  if (received && received->bytes == 0) {
    return fail(ErrorCode::kUnavailable, "the parser died");
  }
  return fail(ErrorCode::kMalformed, "the parser's answer makes no sense");
}

Result<UnwindSource> Client::read_unwind_source(int fd, const DigestKey& key) {
  const auto bytes = call(
      {.operation = Operation::kReadUnwindSource, .words = {key.words[0], key.words[1]}}, {&fd, 1});
  if (!bytes) return bytes.error();
  return decode_unwind_source(*bytes);
}

Result<std::string> Client::make_unwind_table(int fd, int debug_fd) {
  const int files[] = {fd, debug_fd};
  return call({.operation = Operation::kMakeUnwindTable},
              std::span(files).first(debug_fd >= 0 ? 2 : 1));
}

Result<ElfSummary> Client::read_elf_summary(int fd) {
  const auto bytes = call({.operation = Operation::kReadElfSummary}, {&fd, 1});
  if (!bytes) return bytes.error();
  return decode_elf_summary(*bytes);
}

// The time is charged here, since a child that hangs or dies tells none.
Result<std::vector<ElfSymbol>> Client::find_elf_symbols(int fd,
                                                        std::span<const std::uint64_t> addresses,
                                                        SymbolBudget& budget) {
  const auto list =
      make_sealed({reinterpret_cast<const char*>(addresses.data()), addresses.size_bytes()});
  if (!list) return list.error();
  const int files[] = {fd, list->get()};
  const auto time = std::max(std::chrono::nanoseconds(budget.time), std::chrono::nanoseconds(0));
  const Clock::time_point started = Clock::now();
  const auto bytes = call({.operation = Operation::kFindElfSymbols,
                           .words = {budget.table_bytes, static_cast<std::uint64_t>(time.count())}},
                          files);
  if (owner_of(fd) != 0) budget.time -= Clock::now() - started;
  if (!bytes) return bytes.error();
  auto found = decode_found_symbols(*bytes);
  if (!found) return found.error();
  budget.table_bytes = std::min(budget.table_bytes, found->table_bytes_left);
  return std::move(found->symbols);
}

Result<std::int32_t> Client::find_xray_process(int log) {
  const auto bytes = call({.operation = Operation::kFindXrayProcess}, {&log, 1});
  if (!bytes) return bytes.error();
  Cursor cursor(*bytes);
  const auto process = static_cast<std::int32_t>(cursor.read<std::uint32_t>());
  if (!cursor.ok()) return fail(ErrorCode::kMalformed, "the parser's answer makes no sense");
  return process;
}

Result<UniqueFd> Client::read_xray_log(int log, int program) {
  const int files[] = {log, program};
  const auto bytes =
      call({.operation = Operation::kReadXrayLog}, std::span(files).first(program >= 0 ? 2 : 1));
  if (!bytes) return bytes.error();
  return make_sealed(*bytes);
}

Result<std::vector<ElfSymbol>> Client::list_elf_functions(int fd) {
  const auto bytes = call({.operation = Operation::kListElfFunctions}, {&fd, 1});
  if (!bytes) return bytes.error();
  auto found = decode_found_symbols(*bytes);
  if (!found) return found.error();
  return std::move(found->symbols);
}

// With an argument that a request's words don't hold.
Result<std::string> Client::call_with(Operation operation, int fd, std::string_view argument) {
  const auto sealed = make_sealed(argument);
  if (!sealed) return sealed.error();
  const int files[] = {fd, sealed->get()};
  return call({.operation = operation}, files);
}

Result<JitDumpChunk> Client::read_jitdump(int fd, const JitDumpState& state) {
  auto bytes = call_with(Operation::kReadJitDump, fd, encode(state));
  if (!bytes) return bytes.error();
  return decode_jitdump_chunk(std::move(*bytes));
}

Result<PerfMapChunk> Client::read_perf_map(int fd, const PerfMapState& state) {
  auto bytes = call_with(Operation::kReadPerfMap, fd, encode(state));
  if (!bytes) return bytes.error();
  return decode_perf_map_chunk(std::move(*bytes));
}

Result<JitCodeAnswers> Client::read_jit_code(int fd, const JitDumpState& state,
                                             std::span<const JitCodeQuery> queries) {
  const JitCodeRequest request{.state = state, .queries = {queries.begin(), queries.end()}};
  auto bytes = call_with(Operation::kReadJitCode, fd, encode(request));
  if (!bytes) return bytes.error();
  auto answers = decode_jit_code_answers(std::move(*bytes));
  if (answers && answers->functions.size() != queries.size()) {
    return fail(ErrorCode::kMalformed, "the parser's answer is of other functions");
  }
  return answers;
}

Result<JitUnwindAnswers> Client::read_jit_unwind_rows(int fd, const JitDumpState& state,
                                                      std::span<const JitUnwindQuery> queries) {
  const JitUnwindRequest request{.state = state, .queries = {queries.begin(), queries.end()}};
  const auto bytes = call_with(Operation::kReadJitUnwindRows, fd, encode(request));
  if (!bytes) return bytes.error();
  auto answers = decode_jit_unwind_answers(*bytes);
  if (answers && answers->size() != queries.size()) {
    return fail(ErrorCode::kMalformed, "the parser's answer is of other functions");
  }
  return answers;
}

}  // namespace

Result<std::unique_ptr<Parser>> start_client(const ParserLimits& limits, SpawnChild spawn) {
  auto client = std::make_unique<Client>(limits, std::move(spawn));
  if (auto ready = client->ensure_child(); !ready) return ready.error();
  return std::unique_ptr<Parser>(std::move(client));
}

}  // namespace parser

Result<std::unique_ptr<Parser>> Parser::start(const ParserLimits& limits) {
  return parser::start_client(limits, &parser::spawn_this_program);
}

}  // namespace profd
