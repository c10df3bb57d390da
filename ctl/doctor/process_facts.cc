#include "ctl/doctor/process_facts.h"

#include <fstream>

#include "formats/proc/maps.h"
#include "formats/proc/status.h"

namespace profd {
namespace {

constexpr std::size_t kMostMapsLines = 65'536;

}  // namespace

Result<ProcessFacts> read_process_facts(pid_t pid) {
  const auto status = read_process_status("/proc/" + std::to_string(pid) + "/status");
  if (!status) return fail(ErrorCode::kNotFound, "there is no process " + std::to_string(pid));
  return ProcessFacts{.uid = status->effective_uid(),
                      .gid = status->effective_gid(),
                      .namespace_pid = static_cast<pid_t>(status->namespace_pid),
                      .caught_signals = status->caught_signals};
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
