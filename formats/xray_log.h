// Traces of XRay's Flight Data Recorder as they lie in files: several of one process are read as
// one.
//
// First an index of the buffers (40 bytes each), then one pass over them by thread and time, in
// pieces of 256 KiB: memory doesn't grow with the trace but by that index. Buffers that are there
// twice are read once. Damage costs the buffer that it is in.

#pragma once

#include <cstdint>
#include <functional>
#include <span>
#include <vector>

#include "formats/result.h"
#include "formats/xray_clock.h"
#include "formats/xray_fdr_reader.h"
#include "formats/xray_report.h"
#include "formats/xray_stacks.h"

namespace profd::xray {

// Bytes at an offset, as pread gives them: how many, 0 at the end or where they can't be read.
struct ByteSource {
  std::uint64_t bytes = 0;
  std::function<std::size_t(std::uint64_t offset, std::span<char> to)> read_at;
};

class Log {
 public:
  static constexpr std::size_t kMaxBuffers = std::size_t{1} << 20;

  // Reads the header and finds the buffers. An error leaves out this file alone.
  [[nodiscard]] Result<void> add(ByteSource source);

  // Drops what is there twice, and sorts. After the last add().
  void sort();

  // Hands over every buffer, a thread's in the order of time.
  void read(Stacks& stacks);

  // Ticks of the first record; 0: none.
  [[nodiscard]] std::uint64_t first_ticks() const;
  [[nodiscard]] const Clock& clock() const { return clock_; }
  // Of what was found and left out; Stacks has its own.
  [[nodiscard]] const Report& report() const { return report_; }

 private:
  struct Buffer {
    std::uint64_t offset = 0;  // of its records
    std::uint64_t bytes = 0;
    std::uint64_t time = 0;  // sorts a thread's buffers: ticks, or of version 1 the wall clock's
    ThreadId thread;
    std::uint32_t file = 0;
    bool is_cut = false;

    friend auto operator<=>(const Buffer&, const Buffer&) = default;
  };
  struct File {
    ByteSource source;
    Header header;
  };

  std::vector<File> files_;
  std::vector<Buffer> buffers_;
  Clock clock_;
  Report report_;
};

}  // namespace profd::xray
