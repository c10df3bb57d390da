// Decodes profile.proto, of any writer. pprof_format.h has the fields.
//
// Fields may come in any order, unknown ones are skipped, and ids may have gaps. What pprof refuses
// is refused: an index or id without entry, an id that is 0 or there twice, a sample whose values
// do not fit the types, and two profiles one after the other (a gzip member appended to another).
// Columns, drop_frames, keep_frames and doc_url are skipped; so no frame is dropped.
//
// The memory is bounded by the input and the limits below. The tables take at worst 36 bytes for
// each byte of the protobuf (an empty label has 2 bytes there and 24 here, and the table of labels
// doubles its memory when it grows), 2 in usual files; decode_pprof() makes the profile beside
// them. So a caller that decodes another user's file chooses `max_bytes`.

#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <span>
#include <string>
#include <string_view>

#include "formats/profile/pprof_profile.h"
#include "formats/profile/pprof_refusal.h"
#include "formats/profile/pprof_tables.h"

namespace profd {

// Of an unpacked profile. One minute of a busy host is 2 MB.
inline constexpr std::size_t kMaxPprofBytes = std::size_t{128} << 20;
// Of texts, functions, locations and samples each.
inline constexpr std::size_t kMaxPprofEntries = std::size_t{4} << 20;
// Of lines and labels each.
inline constexpr std::size_t kMaxPprofParts = std::size_t{16} << 20;
inline constexpr std::size_t kMaxPprofMappings = std::size_t{256} << 10;
inline constexpr std::size_t kMaxPprofTypes = 64;
inline constexpr std::size_t kMaxPprofComments = 4096;

// The protobuf of a file, which is gzip or plain.
[[nodiscard]] PprofResult<std::string> unpack_pprof(std::string_view file,
                                                    std::size_t max_bytes = kMaxPprofBytes);

// The tables borrow `protobuf`. Unlike decode_pprof() this copies no text, and hashes nothing.
[[nodiscard]] PprofResult<PprofTables> read_pprof_tables(std::string_view protobuf);

// A sample as it lies in a file.
struct PprofPackedSample {
  // Varints: indexes of locations plus 1, the leaf first. They lie in the protobuf, or are valid
  // for one call only.
  std::string_view frames;
  std::span<const PprofLabel> labels;
  std::span<const std::int64_t> values;  // one for each sample type
  std::int64_t longest = 0;              // as PprofTables has it
};

// The tables are complete but for samples, frames, labels and values.
using PprofSampleSink =
    std::function<void(const PprofTables& tables, const PprofPackedSample& sample)>;

// As read_pprof_tables(), but each sample is passed to `sink` instead of being kept: for those who
// keep a million stacks in less memory. A refusal may come after some samples.
[[nodiscard]] PprofResult<PprofTables> read_pprof_samples(std::string_view protobuf,
                                                          const PprofSampleSink& sink);

// The bytes of field 1000 alone, "" without it, without decoding the other fields.
[[nodiscard]] PprofResult<std::string_view> find_own_data(std::string_view protobuf);

// A whole file, gzip or plain. Equal samples are added up, unused entries are left out.
[[nodiscard]] PprofResult<PprofProfile> decode_pprof(std::string_view file,
                                                     std::size_t max_bytes = kMaxPprofBytes);

}  // namespace profd
