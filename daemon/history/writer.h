// Writes windows to the disk and removes them. Everything here runs on the window worker's thread,
// which has a low priority for the CPU and the disk, so that sessions do not wait for windows.

#pragma once

#include <cstdint>
#include <map>
#include <memory>
#include <string>
#include <vector>

#include "collectors/parser/parser.h"
#include "daemon/history/kernel_object.h"
#include "daemon/history/object_store.h"
#include "daemon/history/store.h"
#include "daemon/profiles/entry_functions.h"
#include "daemon/samples/snapshot.h"
#include "formats/base/result.h"

namespace profd {

// The sizes of objects, by name.
using ObjectBytes = std::map<std::string, std::uint64_t>;
[[nodiscard]] std::vector<std::string> names_of(const ObjectBytes& objects);

class WindowWriter {
 public:
  // `parser` is not null; both directories exist.
  WindowWriter(std::string windows_dir, const std::string& objects_dir,
               std::unique_ptr<Parser> parser);

  // Writes the complete window or nothing, except that objects may be left without a window. The
  // snapshot's session is the window's name. Adds the objects that the window needs to `objects`,
  // also when it fails.
  [[nodiscard]] Result<WindowInfo> write(const SessionSnapshot& snapshot, ObjectBytes& objects);

  // Returns the number of files and directories that could not be removed. The next start of the
  // daemon finds them again.
  [[nodiscard]] std::size_t remove(const Evicted& evicted);

 private:
  std::string windows_dir_;
  std::unique_ptr<Parser> parser_;
  ObjectStore objects_;
  KernelObject kernel_;
  EntryFunctions entries_;
};

// Gives the calling thread a low priority for the CPU and the disk.
void take_low_priority();

}  // namespace profd
