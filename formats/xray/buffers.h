// Finds the buffers of an XRay trace. Reads their preambles only: some 100 bytes each.
//
// Version 1's buffers have all one size; those of later versions tell theirs. Where what follows a
// buffer isn't the begin of another, its size may be damaged: then it ends where the next preamble
// is found, if that is inside of it. Bytes that belong to no buffer are passed over up to the next
// preamble. Each byte is looked at twice at most.

#pragma once

#include <cstdint>
#include <functional>
#include <span>

#include "formats/xray/fdr_reader.h"
#include "formats/xray/listener.h"
#include "formats/xray/report.h"

namespace profd::xray {

// Bytes at an offset, as pread gives them: how many, 0 at the end or where they can't be read.
struct ByteSource {
  std::uint64_t bytes = 0;
  std::function<std::size_t(std::uint64_t offset, std::span<char> to)> read_at;
};

struct FoundBuffer {
  std::uint64_t offset = 0;  // of its records
  std::uint64_t bytes = 0;
  bool is_cut = false;
  ThreadId thread;         // process 0 before version 3
  bool has_ticks = false;  // of its first record; false only in version 1
  std::uint64_t ticks = 0;
  std::int64_t wall_ns = 0;  // 0: not told
};

// In the order of the file. What is left out is counted in `report`.
void find_buffers(const ByteSource& source, const Header& header, Report& report,
                  const std::function<void(const FoundBuffer&)>& found);

}  // namespace profd::xray
