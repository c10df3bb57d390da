#include "ctl/doctor/process_facts.h"

#include <charconv>
#include <fstream>
#include <sstream>
#include <string_view>

#include "formats/proc/maps.h"

namespace profd {
namespace {

constexpr std::size_t kMostMapsLines = 65'536;

std::uint64_t hex_of(std::string_view text) {
  std::uint64_t value = 0;
  std::from_chars(text.data(), text.data() + text.size(), value, 16);
  return value;
}

// Of "Uid:" and "Gid:": real, effective, saved, file system.
unsigned effective_of(std::istringstream& fields) {
  unsigned real = 0;
  unsigned effective = 0;
  fields >> real >> effective;
  return effective;
}

pid_t last_of(std::istringstream& fields) {
  pid_t last = 0;
  for (pid_t pid = 0; fields >> pid;) last = pid;
  return last;
}

void read_line(const std::string& line, ProcessFacts& facts) {
  std::istringstream fields(line);
  std::string key;
  fields >> key;
  if (key == "Uid:") facts.uid = effective_of(fields);
  if (key == "Gid:") facts.gid = effective_of(fields);
  if (key == "NSpid:") facts.namespace_pid = last_of(fields);
  if (key != "SigCgt:") return;
  std::string mask;
  fields >> mask;
  facts.caught_signals = hex_of(mask);
}

}  // namespace

Result<ProcessFacts> read_process_facts(pid_t pid) {
  std::ifstream status("/proc/" + std::to_string(pid) + "/status");
  ProcessFacts facts;
  for (std::string line; std::getline(status, line);) read_line(line, facts);
  if (facts.namespace_pid == 0) {
    return fail(ErrorCode::kNotFound, "there is no process " + std::to_string(pid));
  }
  return facts;
}

std::vector<std::string> code_paths_of(pid_t pid) {
  std::ifstream maps("/proc/" + std::to_string(pid) + "/maps");
  std::vector<std::string> paths;
  std::size_t lines = 0;
  for (std::string text; lines < kMostMapsLines && std::getline(maps, text); ++lines) {
    auto line = parse_maps_line(text);
    if (!line || line->permissions.find('x') == std::string::npos || line->path.empty()) continue;
    paths.push_back(std::move(line->path));
  }
  return paths;
}

}  // namespace profd
