// Any text as /proc/PID/stat, status and mountinfo.

#include <cstdint>
#include <string_view>

#include "formats/base/text_fields.h"
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
  std::string_view rest = text;
  while (!rest.empty()) {
    const auto mount = profd::parse_mountinfo_line(profd::take_line(rest));
    require(!mount || !mount->file_system.empty(), "a mount has a file system");
  }
  return 0;
}
