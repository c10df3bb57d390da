// Windows from samples to the disk, and off it again: what the window worker does.
//
// Everything here runs on the window worker's thread, which has a low priority for the CPU and the
// disk: a window waits, a session does not.

#pragma once

#include <chrono>
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

// One window's samples; the snapshot's session is the window's name.
struct WindowSamples {
  SessionSnapshot snapshot;
  std::chrono::nanoseconds start_monotonic{};
};

struct WrittenWindow {
  Result<WindowInfo> window;
  std::vector<std::string> objects;                   // that it needs
  std::map<std::string, std::uint64_t> object_bytes;  // on the disk, of those that were looked at
};

class WindowWriter {
 public:
  // `parser` is not null; both directories exist.
  WindowWriter(std::string windows_dir, const std::string& objects_dir,
               std::unique_ptr<Parser> parser);

  // All of the window or nothing, but for objects, which may be left without a window. Throws
  // nothing.
  [[nodiscard]] WrittenWindow write(const WindowSamples& samples) noexcept;

  // Returns how many files and directories could not be removed; they are met again at the next
  // start.
  [[nodiscard]] std::size_t remove(const Evicted& evicted) noexcept;

 private:
  void write_or_throw(const WindowSamples& samples, WrittenWindow& written);

  std::string windows_dir_;
  std::unique_ptr<Parser> parser_;
  ObjectStore objects_;
  KernelObject kernel_;
  EntryFunctions entries_;
};

// Makes the calling thread run, read and write after others.
void take_low_priority();

}  // namespace profd
