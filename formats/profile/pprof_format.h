// profile.proto: the numbers of its fields. Source: github.com/google/pprof, proto/profile.proto,
// and its comments.
//
//     Profile   = { SampleType | Sample | Mapping | Location | Function | text | numbers }
//     Sample    = { id of a location (leaf first) } { value, one per SampleType } { Label }
//     Location  = id, id of a mapping, address, { Line (innermost inlined function first) }, folded
//     Line      = id of a function, line number
//
// Texts are written as an index into the string table, whose entry 0 is ""; 0 also stands for a
// missing text. Ids are numbers above 0 that entries choose; 0 stands for a missing entry.
//
// What profd writes, and why (each was tried with the readers):
//
// - The order of fields is sample types, texts, numbers, mappings, functions, locations, samples,
//   times, own data: the file can be read in one pass. Perfetto's older versions want a sample type
//   first, and newer ones stop at an unknown field in the first 128 bytes.
// - Ids are 1 to n in order: Parca refuses others.
// - All has_ flags are set: pprof then does not try to name frames again.
// - No column, since pprof makes a node of each, and no drop_frames, keep_frames and doc_url.

#pragma once

#include <cstdint>

namespace profd::pprof {

namespace profile {
inline constexpr std::uint32_t kSampleType = 1;
inline constexpr std::uint32_t kSample = 2;
inline constexpr std::uint32_t kMapping = 3;
inline constexpr std::uint32_t kLocation = 4;
inline constexpr std::uint32_t kFunction = 5;
inline constexpr std::uint32_t kText = 6;
inline constexpr std::uint32_t kTimeNs = 9;
inline constexpr std::uint32_t kDurationNs = 10;
inline constexpr std::uint32_t kPeriodType = 11;
inline constexpr std::uint32_t kPeriod = 12;
inline constexpr std::uint32_t kComment = 13;
inline constexpr std::uint32_t kDefaultSampleType = 14;
// Not in profile.proto:
inline constexpr std::uint32_t kOwnData = 1000;
inline constexpr std::uint32_t kSampleTimes = 1001;  // sample_times.h
}  // namespace profile

namespace value_type {
inline constexpr std::uint32_t kType = 1;
inline constexpr std::uint32_t kUnit = 2;
}  // namespace value_type

namespace sample {
inline constexpr std::uint32_t kLocation = 1;
inline constexpr std::uint32_t kValue = 2;
inline constexpr std::uint32_t kLabel = 3;
}  // namespace sample

namespace label {
inline constexpr std::uint32_t kKey = 1;
inline constexpr std::uint32_t kText = 2;
inline constexpr std::uint32_t kNumber = 3;
inline constexpr std::uint32_t kUnit = 4;
}  // namespace label

namespace mapping {
inline constexpr std::uint32_t kId = 1;
inline constexpr std::uint32_t kStart = 2;
inline constexpr std::uint32_t kLimit = 3;
inline constexpr std::uint32_t kFileOffset = 4;
inline constexpr std::uint32_t kFile = 5;
inline constexpr std::uint32_t kBuildId = 6;
inline constexpr std::uint32_t kHasFunctions = 7;
inline constexpr std::uint32_t kHasFiles = 8;
inline constexpr std::uint32_t kHasLines = 9;
inline constexpr std::uint32_t kHasInlined = 10;
}  // namespace mapping

namespace location {
inline constexpr std::uint32_t kId = 1;
inline constexpr std::uint32_t kMapping = 2;
inline constexpr std::uint32_t kAddress = 3;
inline constexpr std::uint32_t kLine = 4;
inline constexpr std::uint32_t kIsFolded = 5;
}  // namespace location

namespace line {
inline constexpr std::uint32_t kFunction = 1;
inline constexpr std::uint32_t kLine = 2;
}  // namespace line

namespace function {
inline constexpr std::uint32_t kId = 1;
inline constexpr std::uint32_t kName = 2;
inline constexpr std::uint32_t kSystemName = 3;
inline constexpr std::uint32_t kFile = 4;
inline constexpr std::uint32_t kStartLine = 5;
}  // namespace function

}  // namespace profd::pprof
