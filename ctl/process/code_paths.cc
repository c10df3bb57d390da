#include "ctl/process/code_paths.h"

#include <fstream>
#include <utility>

#include "formats/proc/maps.h"

namespace profd {

std::vector<std::string> code_paths_of(pid_t pid) {
  constexpr std::size_t kMaxLines = 65'536;
  std::ifstream maps("/proc/" + std::to_string(pid) + "/maps");
  std::vector<std::string> paths;
  std::size_t lines = 0;
  for (std::string text; lines < kMaxLines && std::getline(maps, text); ++lines) {
    auto line = parse_maps_line(text);
    if (!line || line->permissions.find('x') == std::string::npos || line->path.empty()) continue;
    paths.push_back(std::move(line->path));
  }
  return paths;
}

}  // namespace profd
