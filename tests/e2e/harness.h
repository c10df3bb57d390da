// What the end-to-end tests share: commands with their output, a private daemon, workloads, and
// both pprofs as oracles.
//
// Everything started here is ended here, by pid; sockets and directories are private and removed.

#pragma once

#include <sys/types.h>

#include <chrono>
#include <filesystem>
#include <functional>
#include <map>
#include <string>
#include <vector>

#include <gmock/gmock.h>

#include "formats/api/control_api.h"
#include "formats/api/session_summary.h"
#include "formats/api/status_info.h"

namespace profd::e2e {

inline constexpr uid_t kNobody = 65534;
inline constexpr uid_t kSomebody = 12345;

using Args = std::vector<std::string>;

// The whole of a file; of one that can't be read, nothing.
std::string slurp(const std::filesystem::path& path);

std::string first_line(const std::string& text);

struct Ended {
  pid_t pid = -1;
  int status = -1;  // exit status, or 128 + signal
  std::string out;
  std::string err;
};

// A child process that runs a command. The constructor returns after the exec, so that the daemon
// never sees the child as the test program. Killed and reaped on destruction unless it was waited
// for.
class Process {
 public:
  struct Options {
    std::filesystem::path directory;  // to run in
    uid_t uid = 0;  // and gid, when not 0; runs a copy of the program that it can reach
    std::map<std::string, std::string> environment;
    std::function<void()> before_exec;  // in the child, after fork
  };
  explicit Process(const Args& command) : Process(command, Options()) {}
  Process(const Args& command, const Options& options);
  Process(const Process&) = delete;
  Process& operator=(const Process&) = delete;
  ~Process();

  [[nodiscard]] pid_t pid() const { return pid_; }
  [[nodiscard]] bool running();
  void signal(int number) const;
  // Hang guard: killed after `limit`, and then the status is 128 + SIGKILL.
  Ended wait(std::chrono::seconds limit = std::chrono::seconds(120));
  // What it wrote so far.
  [[nodiscard]] std::string out() const;
  [[nodiscard]] std::string err() const;

 private:
  pid_t pid_ = -1;
  std::filesystem::path out_path_;
  std::filesystem::path err_path_;
  int status_ = -1;
  bool reaped_ = false;
};

Ended run(const Args& command);
Ended run(const Args& command, const Process::Options& options);

// A fresh directory, removed with all it holds.
class TemporaryDirectory {
 public:
  TemporaryDirectory();
  TemporaryDirectory(const TemporaryDirectory&) = delete;
  TemporaryDirectory& operator=(const TemporaryDirectory&) = delete;
  ~TemporaryDirectory();
  [[nodiscard]] const std::filesystem::path& path() const { return path_; }

 private:
  std::filesystem::path path_;
};

// profd on a private socket and state directory. Started in the constructor, which waits until it
// answers.
class Daemon {
 public:
  struct Options {
    Args arguments;            // beside those for its socket and state
    Process::Options process;  // how it is run
  };
  Daemon() : Daemon(Options()) {}
  explicit Daemon(Options options);
  ~Daemon();

  [[nodiscard]] const std::filesystem::path& directory() const { return directory_.path(); }
  [[nodiscard]] std::filesystem::path socket() const {
    return directory_.path() / "run" / "profd.sock";
  }
  [[nodiscard]] std::filesystem::path admin_socket() const {
    return directory_.path() / "run" / "admin.sock";
  }
  [[nodiscard]] std::filesystem::path state() const { return directory_.path() / "state"; }
  [[nodiscard]] Args command() const;  // profd with its options

  Ended profctl(const Args& args) const;
  Ended profctl(const Args& args, const Process::Options& options) const;
  [[nodiscard]] Args profctl_command(const Args& args) const;

  void start();
  Ended stop(int signal);  // and waits
  [[nodiscard]] Process& process() { return *process_; }
  [[nodiscard]] StatusInfo status() const;

 private:
  Options options_;
  TemporaryDirectory directory_;
  std::unique_ptr<Process> process_;
};

// Samples by function name, flat or cumulative.
using Shares = std::map<std::string, double>;  // percent
struct Report {
  Shares flat;
  Shares cumulative;
  std::string text;
};
Report go_pprof(const std::filesystem::path& profile);
// Of several profiles together, all of which it has to read.
Report go_pprof(const std::vector<std::filesystem::path>& profiles);
// The same of the samples of one process name in a profile with names, without reading programs.
Report named_report(const std::filesystem::path& profile, const std::string& comm);
Report perl_pprof(const std::filesystem::path& program, const std::filesystem::path& profile);

// The fields of session.json below `directory`; fails the test when it can't be read.
SessionSummary read_summary(const std::filesystem::path& directory);

// The profiles of a process name, in the summary's order.
std::vector<ProfileSummary> profiles_of(const SessionSummary& summary, const std::string& comm);

// Of a workload built beside the tests.
std::filesystem::path workload(const std::string& name);

// Waits until `condition` holds, at most `limit`: a hang guard, not a measurement.
bool eventually(const std::function<bool()>& condition,
                std::chrono::seconds limit = std::chrono::seconds(30));

}  // namespace profd::e2e
