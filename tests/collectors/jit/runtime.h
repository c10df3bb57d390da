// A process that stands for one with a JIT runtime: it sleeps, with the mappings that a test wants.
// The test writes its JIT sources.

#pragma once

#include <sys/types.h>

#include <chrono>
#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <string_view>

#include "collectors/host/uid_owners.h"
#include "collectors/jit/processes.h"
#include "tests/formats/jit/jitdump_writer.h"

namespace profd::test {

inline constexpr uid_t kOther = 54'321;  // who is neither root nor the process's user

// A new directory, removed with its content.
class PrivateDirectory {
 public:
  PrivateDirectory();
  PrivateDirectory(const PrivateDirectory&) = delete;
  PrivateDirectory& operator=(const PrivateDirectory&) = delete;
  ~PrivateDirectory();
  [[nodiscard]] const std::string& path() const { return path_; }
  [[nodiscard]] std::string operator/(const std::string& name) const { return path_ + "/" + name; }

 private:
  std::string path_;
};

// As if kOther had 1,000 subordinate uids from kSubordinate on; the files are in `directory`.
inline constexpr uid_t kSubordinate = 600'000;
UidOwners owners_with_subordinates(const PrivateDirectory& directory);

class Runtime {
 public:
  // Runs `prepare` in the child before it sleeps. It may only make system calls, and returns
  // whether it succeeded.
  explicit Runtime(const std::function<bool()>& prepare = [] { return true; });
  Runtime(const Runtime&) = delete;
  Runtime& operator=(const Runtime&) = delete;
  ~Runtime();

  [[nodiscard]] bool is_ready() const { return ready_; }
  [[nodiscard]] pid_t pid() const { return pid_; }
  [[nodiscard]] const ProcessKey& key() const { return key_; }
  void end();

 private:
  pid_t pid_ = -1;
  bool ready_ = false;
  ProcessKey key_;
};

// A runtime that forks after `prepare`. Its child sleeps as well, and ends with it.
class ForkedRuntime {
 public:
  explicit ForkedRuntime(const std::function<bool()>& prepare = [] { return true; });
  ForkedRuntime(const ForkedRuntime&) = delete;
  ForkedRuntime& operator=(const ForkedRuntime&) = delete;
  ~ForkedRuntime();

  [[nodiscard]] bool is_ready() const { return parent_.is_ready(); }
  [[nodiscard]] const Runtime& parent() const { return parent_; }
  [[nodiscard]] pid_t child() const { return *child_; }

 private:
  pid_t* child_;  // shared with the parent, which writes it
  Runtime parent_;
};

// The key that the kernel side has for a process.
[[nodiscard]] ProcessKey key_of(pid_t pid);
// A mapping of JIT code in the process.
[[nodiscard]] MappingView jit_code_of(const ProcessKey& process);

// Maps the file's first page as a marker, as runtimes do.
[[nodiscard]] bool map_marker(const char* path);

void write_file(const std::string& path, std::string_view bytes);
void append_file(const std::string& path, std::string_view bytes);

// A function of a jitdump; its code bytes are all 0x90.
struct Function {
  std::string name;
  std::uint64_t address = 0x10000;
  std::uint64_t bytes = 64;
  std::uint64_t time_ns = 1;
};
[[nodiscard]] std::string dump_header(pid_t pid);
[[nodiscard]] std::string load_of(pid_t pid, const Function& function);
[[nodiscard]] inline std::string dump_of(pid_t pid, const Function& function) {
  return dump_header(pid) + load_of(pid, function);
}

[[nodiscard]] std::uint64_t monotonic_ns();

// Polls until the condition is true; false after 30 s.
[[nodiscard]] bool wait_for(JitProcesses& processes, const std::function<bool()>& condition);

// The name of the function at an address, "" for none.
[[nodiscard]] std::string name_at(JitProcesses& processes, const ProcessKey& process,
                                  std::uint64_t address, std::uint64_t time_ns = UINT64_MAX - 1);

[[nodiscard]] std::uint64_t refused(const JitProcesses& processes, JitRefusal reason);

}  // namespace profd::test
