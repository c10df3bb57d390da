#include "tests/e2e/harness.h"

#include <fcntl.h>
#include <grp.h>
#include <poll.h>
#include <signal.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <cctype>
#include <cerrno>
#include <cstdlib>
#include <fstream>
#include <sstream>
#include <stdexcept>
#include <thread>

#include "formats/base/unique_fd.h"
#include "tests/reachable_program.h"

namespace profd::e2e {
namespace {

// Most conditions start profctl, which takes CPU time of other tests: those that take long are
// asked less often.
constexpr std::chrono::steady_clock::duration kShortestPoll = std::chrono::milliseconds(10);
constexpr std::chrono::steady_clock::duration kLongestPoll = std::chrono::milliseconds(50);
constexpr int kPollsOfTimeWaited = 10;

std::filesystem::path temporary_file() {
  std::string pattern = std::filesystem::temp_directory_path() / "profd_e2e_XXXXXX";
  const int fd = ::mkstemp(pattern.data());
  if (fd >= 0) ::close(fd);
  return pattern;
}

void redirect(const std::filesystem::path& path, int fd) {
  const int file = ::open(path.c_str(), O_WRONLY | O_APPEND);
  ::dup2(file, fd);
}

[[noreturn]] void exec(const Args& command) {
  std::vector<char*> argv;
  for (const std::string& argument : command) argv.push_back(const_cast<char*>(argument.c_str()));
  argv.push_back(nullptr);
  ::execvp(argv[0], argv.data());
  std::perror(argv[0]);
  ::_exit(127);
}

void become(const Process::Options& options) {
  if (!options.directory.empty() && ::chdir(options.directory.c_str()) != 0) ::_exit(126);
  for (const auto& [name, value] : options.environment) ::setenv(name.c_str(), value.c_str(), 1);
  if (options.uid == 0) return;
  if (::setgroups(0, nullptr) != 0 || ::setgid(options.uid) != 0 || ::setuid(options.uid) != 0) {
    ::_exit(126);
  }
}

int exit_status(int status) {
  return WIFEXITED(status) ? WEXITSTATUS(status) : 128 + WTERMSIG(status);
}

// Whether a child that is not reaped ends within `limit`.
bool ends_within(pid_t pid, std::chrono::milliseconds limit) {
  const UniqueFd process(static_cast<int>(::syscall(SYS_pidfd_open, pid, 0)));
  if (!process.valid()) throw std::runtime_error("pidfd_open failed");
  const auto end = std::chrono::steady_clock::now() + limit;
  pollfd ended{.fd = process.get(), .events = POLLIN, .revents = 0};
  for (auto left = limit; left.count() > 0;
       left = std::chrono::duration_cast<std::chrono::milliseconds>(
           end - std::chrono::steady_clock::now())) {
    if (::poll(&ended, 1, static_cast<int>(left.count())) > 0) return true;
  }
  return false;
}

// "  30  60.0%  60.0%   50 100.0% name" of Perl's, "300ms 60.0% 60.0% 500ms 100% name" of Go's.
Report parse_report(const std::string& text) {
  Report report{.flat = {}, .cumulative = {}, .text = text};
  std::istringstream lines(text);
  for (std::string line; std::getline(lines, line);) {
    std::istringstream fields(line);
    std::string flat_value, flat, sum, cumulative_value, cumulative, name;
    if (!(fields >> flat_value >> flat >> sum >> cumulative_value >> cumulative)) continue;
    const bool numbers = std::isdigit(static_cast<unsigned char>(flat[0])) != 0;  // no heading
    if (!numbers || !flat.ends_with('%') || !cumulative.ends_with('%')) continue;
    std::getline(fields >> std::ws, name);
    report.flat[name] += std::stod(flat);
    report.cumulative[name] += std::stod(cumulative);
  }
  return report;
}

}  // namespace

std::string slurp(const std::filesystem::path& path) {
  std::ifstream file(path, std::ios::binary);
  std::ostringstream text;
  text << file.rdbuf();
  return text.str();
}

std::string first_line(const std::string& text) { return text.substr(0, text.find('\n')); }

Process::Process(const Args& command, const Options& options)
    : out_path_(temporary_file()), err_path_(temporary_file()) {
  Args reachable = command;
  if (options.uid != 0) reachable[0] = test::reachable_program(command[0]);
  int ends[2] = {-1, -1};
  if (::pipe2(ends, O_CLOEXEC) != 0) throw std::runtime_error("pipe2 failed");
  const UniqueFd gate(ends[0]);
  UniqueFd childs_end(ends[1]);  // closed by its exec, or its end
  pid_ = ::fork();
  if (pid_ == 0) {
    redirect(out_path_, STDOUT_FILENO);
    redirect(err_path_, STDERR_FILENO);
    if (options.before_exec) options.before_exec();
    become(options);
    exec(reachable);
  }
  childs_end.reset();
  char none = 0;
  while (::read(gate.get(), &none, 1) < 0 && errno == EINTR) {
  }
}

Process::~Process() {
  if (!reaped_ && pid_ > 0) {
    ::kill(pid_, SIGKILL);
    ::waitpid(pid_, nullptr, 0);
  }
  std::filesystem::remove(out_path_);
  std::filesystem::remove(err_path_);
}

bool Process::running() {
  if (reaped_) return false;
  int status = 0;
  if (::waitpid(pid_, &status, WNOHANG) != pid_) return true;
  reaped_ = true;
  status_ = exit_status(status);
  return false;
}

void Process::signal(int number) const {
  if (!reaped_) ::kill(pid_, number);
}

Ended Process::wait(std::chrono::seconds limit) {
  const bool in_time = !running() || ends_within(pid_, limit);
  if (!in_time) signal(SIGKILL);
  if (!reaped_) {
    int status = 0;
    ::waitpid(pid_, &status, 0);
    reaped_ = true;
    status_ = exit_status(status);
  }
  return {.pid = pid_, .status = status_, .out = out(), .err = err()};
}

std::string Process::out() const { return slurp(out_path_); }
std::string Process::err() const { return slurp(err_path_); }

Ended run(const Args& command) { return run(command, Process::Options()); }

Ended run(const Args& command, const Process::Options& options) {
  Process process(command, options);
  return process.wait();
}

TemporaryDirectory::TemporaryDirectory() {
  std::string pattern = std::filesystem::temp_directory_path() / "profd_e2e_dir_XXXXXX";
  if (::mkdtemp(pattern.data()) != nullptr) path_ = pattern;
  std::filesystem::permissions(path_, std::filesystem::perms(0755));
}

TemporaryDirectory::~TemporaryDirectory() {
  std::error_code ignored;
  std::filesystem::remove_all(path_, ignored);
}

// That of an installed profd does not count.
Daemon::Daemon(Options options) : options_(std::move(options)) {
  if (std::ranges::find(options_.arguments, "--config") == options_.arguments.end()) {
    const std::filesystem::path empty = directory() / "profd.toml";
    std::ofstream(empty).close();
    options_.arguments.insert(options_.arguments.end(), {"--config", empty});
  }
  start();
}

Daemon::~Daemon() {
  if (process_ && process_->running()) stop(SIGTERM);
}

Args Daemon::command() const {
  Args command{PROFD_BINARY, "--socket", socket(), "--state-dir", state()};
  command.insert(command.end(), options_.arguments.begin(), options_.arguments.end());
  return command;
}

void Daemon::start() {
  process_ = std::make_unique<Process>(command(), options_.process);
  const bool answers = eventually([this] { return profctl({"status"}).status == 0; });
  if (!answers) {
    ADD_FAILURE() << "profd does not answer; its log:\n" << process_->err();
  }
}

// With PROFD_STALL_MS in the environment, which the daemon inherits, its io thread may not stand.
Ended Daemon::stop(int signal) {
  process_->signal(signal);
  Ended ended = process_->wait();
  EXPECT_EQ(ended.err.find("the io thread stands"), std::string::npos) << ended.err;
  return ended;
}

Args Daemon::profctl_command(const Args& args) const {
  Args command{PROFCTL_BINARY};
  command.insert(command.end(), args.begin(), args.end());
  return command;
}

Ended Daemon::profctl(const Args& args) const { return profctl(args, Process::Options()); }

Ended Daemon::profctl(const Args& args, const Process::Options& options) const {
  Process::Options with_socket = options;
  with_socket.environment["PROFD_SOCKET"] = socket();
  return run(profctl_command(args), with_socket);
}

StatusInfo Daemon::status() const {
  const Ended ended = profctl({"status", "--json"});
  const Result<StatusInfo> status = parse_status_info(ended.out);
  if (!status) {
    ADD_FAILURE() << status.error().message << "\n" << ended.out << ended.err;
    return {};
  }
  return *status;
}

Report go_pprof(const std::filesystem::path& profile) {
  return go_pprof(std::vector<std::filesystem::path>{profile});
}

Report go_pprof(const std::vector<std::filesystem::path>& profiles) {
  Args command{GO_PPROF_BINARY,    "-symbolize=local", "-top",
               "-nodecount=10000", "-nodefraction=0",  "-edgefraction=0"};
  for (const std::filesystem::path& profile : profiles) command.push_back(profile.native());
  const Ended ended = run(command);
  EXPECT_EQ(ended.status, 0) << ended.err;
  // Without some of them it succeeds: "Fetched 3 source profiles out of 4".
  EXPECT_EQ(ended.err.find("source profiles out of"), std::string::npos) << ended.err;
  return parse_report(ended.out);
}

Report named_report(const std::filesystem::path& profile, const std::string& comm) {
  const Ended ended =
      run({GO_PPROF_BINARY, "-symbolize=none", "-top", "-nodecount=10000", "-nodefraction=0",
           "-edgefraction=0", "-tagfocus=comm=^" + comm + "$", profile});
  EXPECT_EQ(ended.status, 0) << ended.err;
  return parse_report(ended.out);
}

Report perl_pprof(const std::filesystem::path& program, const std::filesystem::path& profile) {
  const Ended ended = run({"google-pprof", "--text", "--nodefraction=0", program, profile});
  EXPECT_EQ(ended.status, 0) << ended.err;
  return parse_report(ended.out);
}

SessionSummary read_summary(const std::filesystem::path& directory) {
  const Result<SessionSummary> summary = parse_session_summary(slurp(directory / "session.json"));
  if (!summary) {
    ADD_FAILURE() << directory << ": " << summary.error().message;
    return {};
  }
  return *summary;
}

std::vector<ProfileSummary> profiles_of(const SessionSummary& summary, const std::string& comm) {
  std::vector<ProfileSummary> found;
  for (const ProfileSummary& profile : summary.profiles) {
    if (profile.comm == comm) found.push_back(profile);
  }
  return found;
}

std::filesystem::path workload(const std::string& name) {
  return std::filesystem::path(WORKLOAD_DIRECTORY) / name;
}

bool eventually(const std::function<bool()>& condition, std::chrono::seconds limit) {
  const auto start = std::chrono::steady_clock::now();
  while (!condition()) {
    const auto waited = std::chrono::steady_clock::now() - start;
    if (waited > limit) return false;
    std::this_thread::sleep_for(
        std::clamp(waited / kPollsOfTimeWaited, kShortestPoll, kLongestPoll));
  }
  return true;
}

}  // namespace profd::e2e
