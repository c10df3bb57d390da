#include "tests/e2e/cpu_groups.h"

#include <fcntl.h>
#include <unistd.h>

#include <chrono>
#include <fstream>
#include <string>
#include <system_error>
#include <thread>

namespace profd::e2e {
namespace {

namespace fs = std::filesystem;

constexpr int kUsualWeight = 100;  // of systemd
constexpr int kWeightOfProfd = 500;
// The processes of the test are outside of the groups, and each counts as a group of its own.
constexpr int kWeightOfAll = 800;

bool write(const fs::path& file, const std::string& text) {
  std::ofstream stream(file);
  return static_cast<bool>(stream << text << std::flush);
}

// Whether the children of the group had no files for the CPU, and have them now. Not in v1.
bool enable_weights(const fs::path& group) {
  std::ifstream enabled(group / "cgroup.subtree_control");
  for (std::string controller; enabled >> controller;) {
    if (controller == "cpu") return false;
  }
  return write(group / "cgroup.subtree_control", "+cpu");
}

bool set_weight(const fs::path& group, int weight) {
  constexpr int kUsualShares = 1024;  // of v1
  return write(group / "cpu.weight", std::to_string(weight)) ||
         write(group / "cpu.shares", std::to_string(kUsualShares * weight / kUsualWeight));
}

// Its children have files for the CPU. In v1 all have.
bool make_parent(const fs::path& group) {
  std::error_code error;
  if (!fs::create_directory(group, error)) return false;
  return fs::exists(group / "cpu.shares") || enable_weights(group);
}

bool make_groups(const fs::path& top) {
  std::error_code error;
  return make_parent(top) && make_parent(top / "services") &&
         fs::create_directory(top / "services" / "profd", error) &&
         fs::create_directory(top / "services" / "others", error) &&
         fs::create_directory(top / "users", error) && set_weight(top, kWeightOfAll) &&
         set_weight(top / "services" / "profd", kWeightOfProfd);
}

void remove_groups(const fs::path& top) {
  for (const char* group : {"services/profd", "services/others", "services", "users"}) {
    ::rmdir((top / group).c_str());
  }
  ::rmdir(top.c_str());
}

}  // namespace

CpuGroups::CpuGroups() {
  const std::string name = "profd_test_" + std::to_string(::getpid());
  for (const char* root : {"/sys/fs/cgroup", "/sys/fs/cgroup/cpu", "/sys/fs/cgroup/cpu,cpuacct"}) {
    if (!fs::exists(fs::path(root) / "cgroup.procs")) continue;
    has_enabled_weights_ = enable_weights(root);
    top_ = fs::path(root) / name;
    if (make_groups(top_)) return;
    remove_groups(top_);
    restore_weights();
    top_.clear();
  }
}

void CpuGroups::restore_weights() const {
  if (has_enabled_weights_) write(top_.parent_path() / "cgroup.subtree_control", "-cpu");
}

CpuGroups::~CpuGroups() {
  if (!are_there()) return;
  // Processes that were killed leave a little later.
  for (int i = 0; i < 100 && fs::exists(top_); ++i) {
    remove_groups(top_);
    std::this_thread::sleep_for(std::chrono::milliseconds(50));
  }
  restore_weights();
}

bool CpuGroups::has_profd(pid_t pid) const {
  std::ifstream groups("/proc/" + std::to_string(pid) + "/cgroup");
  const std::string name = "/" + top_.filename().string() + "/services/profd";
  for (std::string line; std::getline(groups, line);) {
    if (line.ends_with(name)) return true;
  }
  return false;
}

std::function<void()> CpuGroups::of_profd() const { return join("services/profd"); }
std::function<void()> CpuGroups::of_services() const { return join("services/others"); }
std::function<void()> CpuGroups::of_users() const { return join("users"); }

std::function<void()> CpuGroups::join(const fs::path& group) const {
  if (!are_there()) return [] {};
  return [file = (top_ / group / "cgroup.procs").string()] {
    const int fd = ::open(file.c_str(), O_WRONLY | O_CLOEXEC);
    if (fd < 0) return;
    (void)!::write(fd, "0", 1);
    ::close(fd);
  };
}

}  // namespace profd::e2e
