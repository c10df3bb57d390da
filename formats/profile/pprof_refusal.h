// Why a profile.proto is refused: the error type of its reader, so that refusals can be counted by
// name.

#pragma once

#include <cstddef>
#include <cstdint>
#include <string_view>

#include <boost/system/result.hpp>

#include "formats/base/result.h"

namespace profd {

enum class PprofRefusal : std::uint8_t {
  kTooLarge,         // unpacked, over a limit of bytes
  kTooManyEntries,   // over a limit of pprof_reader.h
  kCutGzip,          // gzip data that ends too early
  kBadGzip,          // gzip data that is malformed
  kBadProtobuf,      // a field is cut, or this is no protobuf at all
  kWrongType,        // a known field has another type than in profile.proto
  kNoTexts,          // no string table, or one whose first entry is not ""
  kBadText,          // an index beyond the string table
  kBadId,            // an id that is 0, or there twice
  kUnknownId,        // a reference to an id that no entry has
  kWrongValueCount,  // a sample with another number of values than there are types, or with none
  kConcatenated,     // two profiles one after the other
  kCount,
};
inline constexpr std::size_t kPprofRefusals = static_cast<std::size_t>(PprofRefusal::kCount);
[[nodiscard]] std::string_view name_of(PprofRefusal refusal);  // "wrong_type"
[[nodiscard]] Error error_of(PprofRefusal refusal);            // for people: "... profile: why"

template <class T>
using PprofResult = boost::system::result<T, PprofRefusal>;

}  // namespace profd
