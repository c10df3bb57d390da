// Any text as /proc/PID/stat, status and mountinfo.

#include <algorithm>
#include <cstdint>
#include <string_view>

#include "formats/proc/mountinfo.h"
#include "formats/proc/stat.h"
#include "formats/proc/status.h"
#include "tests/fuzz/require.h"

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  const std::string_view text(reinterpret_cast<const char*>(data), size);
  if (profd::parse_process_stat(text)) {
    require(text.find(')') != text.npos, "the fields of a stat follow a name");
  }
  if (profd::parse_process_status(text)) {
    require(text.find("\nUid:\t") != text.npos, "a status has a line with user ids");
  }
  const auto mounts = profd::parse_mountinfo(text);
  const auto lines = static_cast<std::size_t>(std::ranges::count(text, '\n')) + 1;
  require(mounts.size() <= lines, "at most one mount a line");
  for (const profd::Mount& mount : mounts) {
    require(!mount.file_system.empty(), "a mount has a file system");
  }
  return 0;
}
