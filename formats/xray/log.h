// Reads traces of XRay's Flight Data Recorder in files. Several files of one process are read as
// one trace.
//
// The reader makes an index of the buffers, then reads them sorted by thread and time, in chunks of
// 256 KiB, so only the index grows with the trace. Buffers of a thread that begin at the same time
// are copies of one buffer; the longest is read. Malformed bytes make the rest of their buffer
// unreadable, but no other buffer.

#pragma once

#include <cstdint>
#include <vector>

#include "formats/base/result.h"
#include "formats/xray/buffers.h"
#include "formats/xray/clock.h"
#include "formats/xray/fdr_reader.h"
#include "formats/xray/report.h"
#include "formats/xray/stacks.h"

namespace profd::xray {

class Log {
 public:
  static constexpr std::size_t kMaxBuffers = std::size_t{1} << 20;

  // Reads the header and finds the buffers. After an error the other files are still read. An error
  // is a file that is not a trace, has an unknown version, or has another tick frequency than the
  // files before it.
  [[nodiscard]] Result<void> add(ByteSource source);

  // Whether the files are of one process and its forked children, by the processes of their
  // buffers. A child's file has buffers of its parent, too. To be called before sort().
  [[nodiscard]] bool is_of_one_process() const;

  // Sorts the buffers and removes the copies. To be called after the last add().
  void sort();

  // Adds all buffers to `stacks`, those of a thread in the order of time.
  void read(Stacks& stacks);

  // Ticks of the first record; 0: there is none.
  [[nodiscard]] std::uint64_t first_ticks() const { return first_ticks_; }
  [[nodiscard]] const Clock& clock() const { return clock_; }
  [[nodiscard]] std::size_t buffers() const { return buffers_.size(); }
  // What was found and skipped in the files. Stacks has a report of its own on the records.
  [[nodiscard]] const Report& report() const { return report_; }

 private:
  struct Buffer {
    ThreadId thread;
    std::uint64_t time = 0;  // sorts a thread's buffers: ticks, or the wall clock in version 1
    std::uint64_t offset = 0;
    std::uint64_t bytes = 0;
    std::uint32_t file = 0;
    bool is_cut = false;
  };
  struct File {
    ByteSource source;
    Header header;
  };

  void index(const FoundBuffer& found);
  void read_buffer(const Buffer& buffer, Stacks& stacks);

  std::vector<File> files_;
  std::vector<Buffer> buffers_;
  std::vector<char> chunk_;
  Clock clock_;
  std::uint64_t first_ticks_ = 0;
  Report report_;
};

}  // namespace profd::xray
