// Runs the workload program (workload.c) and finds its functions by address.

#pragma once

#include <sys/types.h>

#include <cstdint>
#include <string>
#include <vector>

#include "formats/base/unique_fd.h"

namespace profd::test {

struct WorkloadOptions {
  std::string program{};  // another path to run; the workload itself when empty
  uid_t uid = 0;          // with all ids set to it
  gid_t gid = 0;
  bool capable = false;  // with CAP_NET_ADMIN, as an ambient capability
  bool own_user_namespace = false;
  std::string cgroup{};  // a directory to join first
};

// A process, which runs when the constructor returns. The destructor kills and reaps it; its
// children die with it (PR_SET_PDEATHSIG).
class Workload {
 public:
  explicit Workload(std::vector<std::string> arguments, const WorkloadOptions& options = {});
  Workload(const Workload&) = delete;
  Workload& operator=(const Workload&) = delete;
  ~Workload();

  [[nodiscard]] std::uint32_t pid() const { return static_cast<std::uint32_t>(pid_); }
  // What the process wrote when it was ready.
  [[nodiscard]] const std::string& said() const { return said_; }
  void signal(int number) const;
  void end();

 private:
  std::string read_output();
  std::string describe_end();

  pid_t pid_ = -1;
  UniqueFd output_;
  std::string said_;
};

// The CPUs that this process may use.
[[nodiscard]] std::vector<std::size_t> allowed_cpus();
void run_on(std::uint32_t pid, std::size_t cpu);

[[nodiscard]] std::string workload_path();

// The name of the function at an address of the workload, by nm; "?" for none.
[[nodiscard]] std::string workload_function(std::uint64_t address);

}  // namespace profd::test
