// Traces of XRay's Flight Data Recorder as they lie in files: several of one process are read as
// one.
//
// First an index of the buffers, then one pass over them by thread and time, in pieces of 256 KiB:
// memory doesn't grow with the trace but by that index. A thread's buffers that begin at the same
// time are one that is there twice, and are read once: the longest of them. Damage costs the buffer
// that it is in.

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

  // Reads the header and finds the buffers. An error leaves out this file alone: no trace, of
  // another version, or with ticks of another frequency than those before.
  [[nodiscard]] Result<void> add(ByteSource source);

  // By the processes that the buffers name: no file is of other processes than all the rest. A
  // forked child's has buffers of its parent, and so fits both. Before sort().
  [[nodiscard]] bool is_of_one_process() const;

  // Drops what is there twice, and sorts. After the last add().
  void sort();

  // Hands over every buffer, a thread's in the order of time.
  void read(Stacks& stacks);

  // Ticks of the first record; 0: none.
  [[nodiscard]] std::uint64_t first_ticks() const { return first_ticks_; }
  [[nodiscard]] const Clock& clock() const { return clock_; }
  [[nodiscard]] std::size_t buffers() const { return buffers_.size(); }
  // Of what was found and left out; Stacks has its own.
  [[nodiscard]] const Report& report() const { return report_; }

 private:
  struct Buffer {
    ThreadId thread;
    std::uint64_t time = 0;  // sorts a thread's buffers: ticks, of version 1 the wall clock's
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
  std::vector<char> piece_;
  Clock clock_;
  std::uint64_t first_ticks_ = 0;
  Report report_;
};

}  // namespace profd::xray
