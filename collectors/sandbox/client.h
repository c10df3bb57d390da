// A sandboxed child that answers requests (serve_requests), the daemon's side: sends a request,
// waits for the answer within the limits, and replaces a child that dies, hangs or answers
// nonsense.
//
// For one thread: the child is killed when the thread that started it ends.

#pragma once

#include <sys/types.h>

#include <chrono>
#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "collectors/host/uid_owners.h"
#include "collectors/sandbox/packets.h"
#include "collectors/sandbox/spawn.h"
#include "formats/base/result.h"
#include "formats/base/unique_fd.h"

namespace profd::sandbox {

struct ChildLimits {
  std::uint64_t memory_bytes = std::uint64_t{64} << 20;  // address space beyond the program's own
  std::uint64_t answer_bytes = std::uint64_t{64} << 20;
  std::chrono::milliseconds cpu_time{1000};   // of one request
  std::chrono::milliseconds wall_time{5000};  // of one request; a file system may hang
  // The child ends itself after this time without a request (serve_requests); 0: never.
  std::chrono::milliseconds idle_time{0};
};

// The owner of a file as the kernel has it cached: the file system, which may not answer, is not
// asked. UINT32_MAX where it is not known.
[[nodiscard]] std::uint32_t owner_of(int fd);

// Whether root owns all files of a request; -1 stands for none.
[[nodiscard]] bool are_of_root(std::span<const int> files);

class Client {
 public:
  // Starts the first child. `name` is the child's in error messages: "parser".
  static Result<std::unique_ptr<Client>> start(std::string name, const ChildLimits& limits,
                                               Spawn spawn);
  Client(const Client&) = delete;
  Client& operator=(const Client&) = delete;
  ~Client() { end_child(); }

  // The result of one request. The first file is the one that the child reads: while a killed
  // child still hangs in a file of one user other than root, requests for that user's files are
  // kBusy, and so is a request that the kernel cannot send now. An error also where the child died
  // of the request.
  [[nodiscard]] Result<std::string> call(const Request& request, std::span<const int> files) {
    return call(request, files, limits_.cpu_time);
  }
  [[nodiscard]] Result<std::string> call(const Request& request, std::span<const int> files,
                                         std::chrono::milliseconds cpu_limit);

  // Starts the child if there is none, or if it may end itself now. call() does so too; an error
  // here is not due to a file.
  Result<void> ensure_child();
  // Ends the child. The next request starts another.
  void end_child();

  [[nodiscard]] pid_t child() const { return child_; }  // -1: none
  // How often a child that died or was killed was replaced.
  [[nodiscard]] std::uint64_t restarts() const { return restarts_; }
  // The CPU time of all requests. That of a child that died of one is not known: the time that it
  // had been running.
  [[nodiscard]] std::chrono::nanoseconds cpu_time() const { return cpu_time_; }

 private:
  struct Stuck {
    pid_t process = -1;
    std::uint32_t owner = 0;  // whose the file is that the process reads (uid_owners.h)
  };

  Client(std::string name, const ChildLimits& limits, Spawn spawn)
      : name_(std::move(name)), limits_(limits), spawn_(std::move(spawn)) {}
  Result<void> start_child();
  void end_idle_child();
  void reap_stuck();
  [[nodiscard]] bool is_stuck_for(std::uint32_t owner);
  // Starts the child if there is none.
  Result<void> send(const Request& request, std::span<const int> files);
  Result<std::string> receive(std::chrono::milliseconds cpu_limit,
                              std::chrono::milliseconds wall_limit);
  [[nodiscard]] Result<void> wait_for_answer(std::chrono::milliseconds cpu_limit,
                                             std::chrono::milliseconds wall_limit) const;
  Result<std::string> read_answer();

  std::string name_;
  ChildLimits limits_;
  Spawn spawn_;
  UniqueFd socket_;
  pid_t child_ = -1;
  bool started_once_ = false;
  std::chrono::steady_clock::time_point last_request_;
  std::uint64_t restarts_ = 0;
  std::chrono::nanoseconds cpu_time_{};
  std::chrono::nanoseconds child_cpu_time_{};  // of the child, as far as it is counted
  UidOwners owners_;
  std::uint32_t owner_ = 0;   // whose the file is that is being read
  std::vector<Stuck> stuck_;  // killed, but not ended yet
};

}  // namespace profd::sandbox
