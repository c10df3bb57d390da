#include "ctl/process/named_processes.h"

#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cctype>
#include <filesystem>
#include <fstream>
#include <string>
#include <system_error>

namespace profd {
namespace {

namespace fs = std::filesystem;

constexpr std::size_t kMaxNameBytes = 15;

bool is_pid(const std::string& name) {
  return std::ranges::all_of(name, [](unsigned char c) { return std::isdigit(c) != 0; });
}

// A name may have any bytes but 0, also a line end.
std::string name_of_process(const fs::path& process) {
  std::ifstream file(process / "comm", std::ios::binary);
  std::string name(kMaxNameBytes + 1, '\0');
  file.read(name.data(), static_cast<std::streamsize>(name.size()));
  name.resize(static_cast<std::size_t>(file.gcount()));
  if (name.ends_with('\n')) name.pop_back();
  return name;
}

bool is_of_caller(const fs::path& process) {
  struct stat info {};
  return ::geteuid() == 0 || (::stat(process.c_str(), &info) == 0 && info.st_uid == ::geteuid());
}

}  // namespace

NamedProcesses find_named_processes(const std::vector<std::string>& names) {
  NamedProcesses found;
  std::error_code error;
  for (fs::directory_iterator at("/proc", error), end; !error && at != end; at.increment(error)) {
    if (!is_pid(at->path().filename())) continue;
    const std::string name = name_of_process(at->path());
    const bool is_named = std::ranges::any_of(names, [&](const std::string& wanted) {
      return !name.empty() && wanted.substr(0, kMaxNameBytes) == name;
    });
    if (!is_named) continue;
    found.are_there = true;
    found.are_of_caller = found.are_of_caller || is_of_caller(at->path());
  }
  return found;
}

}  // namespace profd
