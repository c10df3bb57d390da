#include "ctl/instrumented_app.h"

#include <filesystem>
#include <fstream>
#include <string>
#include <system_error>

#include "formats/xray_map.h"

namespace profd {
namespace {

namespace fs = std::filesystem;

constexpr const char* kThreadOfLibrary = "profd-xray";  // collectors/xray/app/link.c

// It has one thread of this name, whichever way it was linked.
bool runs_library(pid_t pid) {
  std::error_code error;
  for (fs::directory_iterator task("/proc/" + std::to_string(pid) + "/task", error), end;
       !error && task != end; task.increment(error)) {
    std::ifstream file(task->path() / "comm");
    std::string name;
    if (std::getline(file, name) && name == kThreadOfLibrary) return true;
  }
  return false;
}

}  // namespace

std::optional<CheckPoint> check_instrumentation(pid_t pid, int program) {
  const auto map = xray::read_function_map(program);
  if (!map) return std::nullopt;
  const std::string functions = std::to_string(map->functions.size()) + " instrumented functions";
  if (runs_library(pid)) {
    return CheckPoint{.name = "xray",
                      .state = CheckState::kOk,
                      .message = functions +
                                 ", and libprofd_xray is there: its calls can be "
                                 "recorded by --event xray",
                      .hint = {}};
  }
  return CheckPoint{.name = "xray",
                    .state = CheckState::kNote,
                    .message = functions +
                               ", but not libprofd_xray: its calls can't be recorded "
                               "while it runs",
                    .hint = "link it with -lprofd_xray and call profd_xray_start()"};
}

}  // namespace profd
