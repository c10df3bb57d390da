// Finds the buffers of an XRay trace. Reads only their preambles, about 100 bytes each.
//
// All buffers of version 1 have one size; each buffer of a later version has its size in front. If
// no other buffer begins behind a buffer, its size may be wrong: then the buffer ends at the next
// preamble, if there is one inside of it. Bytes that belong to no buffer are skipped up to the next
// preamble. No byte is read more than twice.

#pragma once

#include <cstdint>
#include <functional>
#include <span>

#include "formats/xray/fdr_reader.h"
#include "formats/xray/report.h"

namespace profd::xray {

// `read_at` returns the number of bytes that it read, like pread(): 0 at the end and on an error.
struct ByteSource {
  std::uint64_t bytes = 0;
  std::function<std::size_t(std::uint64_t offset, std::span<char> to)> read_at;
};

struct FoundBuffer {
  std::uint64_t offset = 0;  // of the records
  std::uint64_t bytes = 0;
  bool is_cut = false;
  ThreadId thread;         // the process is 0 before version 3
  bool has_ticks = false;  // `ticks` of the first record are known; false only in version 1
  std::uint64_t ticks = 0;
  std::int64_t wall_ns = 0;  // 0: unknown
};

// Calls `found` for each buffer, in the order of the file. Skipped bytes and buffers are counted in
// `report`.
void find_buffers(const ByteSource& source, const Header& header, Report& report,
                  const std::function<void(const FoundBuffer&)>& found);

}  // namespace profd::xray
