// The checks between the ring buffer and everything else: bytes become a view, once, or are
// refused.
//
// The views borrow the bytes. Their layout is profd_abi.h's; what is checked is every size, count
// and enumerator, so that no accessor of a view can fail or read outside the record.

#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <variant>

#include "collectors/bpf/sample.h"

namespace profd {

using Record = std::variant<SampleView, MappingView, ProcessView, UnmapView>;

[[nodiscard]] FileKey to_key(const profd_file_key& key);
[[nodiscard]] profd_file_key to_abi(const FileKey& key);

// One whole record as the ring buffer holds it, aligned to 8 bytes. None for a malformed one.
[[nodiscard]] std::optional<Record> parse_record(std::span<const std::byte> bytes);

// The session mask of a record that parse_record() refused: 0 unless it is a sample that has one.
[[nodiscard]] std::uint32_t sessions_of_refused(std::span<const std::byte> bytes);

}  // namespace profd
