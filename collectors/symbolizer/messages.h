// What travels between the daemon and the symbolizer.
//
// A request has the descriptors of DwarfFiles that are there, in their order; its first word says
// which (kHasDebugFile, kHasAltFile). Behind them is a sealed memfd with the encoded argument where
// there is one.

#pragma once

#include <cstdint>
#include <vector>

#include "collectors/sandbox/wire.h"
#include "collectors/symbolizer/dwarf_frames.h"
#include "formats/base/utf8_text.h"

namespace profd {
namespace symbolizer {

enum class Operation : std::uint32_t {
  kFindFrames = 1,  // FramesRequest; a list of DwarfAddress
  kFindAltLink,     // no argument; AltLink
};

inline constexpr std::uint64_t kHasDebugFile = 1;
inline constexpr std::uint64_t kHasAltFile = 2;

inline constexpr std::uint64_t kMaxRequestBytes = std::uint64_t{1} << 20;
inline constexpr std::size_t kMaxAnswerBytes = std::size_t{16} << 20;

// Of a symbolizer. libdw decompresses all sections of DWARF at once; beside them, a C++ program of
// 160 MB takes less than 16 MiB.
struct MemoryLimits {
  std::uint64_t private_bytes;
  std::uint64_t decompressed_bytes;
};
// Debug files of distributions are compressed.
inline constexpr MemoryLimits kRootMemory{.private_bytes = std::uint64_t{512} << 20,
                                          .decompressed_bytes = kMaxDecompressedBytes};
inline constexpr MemoryLimits kUserMemory{.private_bytes = std::uint64_t{256} << 20,
                                          .decompressed_bytes = std::uint64_t{192} << 20};

struct FramesRequest {
  std::int64_t cpu_time_ns = 0;
  std::vector<std::uint64_t> addresses;
};

[[nodiscard]] inline bool is_valid(const FramesRequest& request) {
  return request.addresses.size() <= kMaxDwarfAddresses;
}

}  // namespace symbolizer

[[nodiscard]] inline bool is_valid(const AltLink& link) {
  return link.path.size() <= kMaxAltPathBytes && link.build_id.size() <= kMaxBuildIdBytes;
}

[[nodiscard]] inline bool is_valid(const DwarfAddress& answer) {
  return static_cast<std::size_t>(answer.loss) < kDwarfLosses &&
         answer.names.source == source_of(answer.loss, !answer.names.frames.empty()) &&
         answer.file.size() <= kMaxCodeNameBytes && is_printable(answer.file);
}

}  // namespace profd
