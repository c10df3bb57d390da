// protoc and Go's pprof: what they say of a profile.proto, and files that protoc encodes.

#pragma once

#include <filesystem>
#include <ostream>
#include <string>
#include <string_view>
#include <vector>

#include "formats/profile/pprof_profile.h"
#include "tests/formats/readers.h"

namespace profd::test {

// As protoc prints it, in the order of the field numbers.
[[nodiscard]] std::string protoc_decoded(std::string_view protobuf);
// The numbers of the outermost fields, in the order of the file, each run of one number once.
[[nodiscard]] std::vector<int> top_level_fields(std::string_view protobuf);
[[nodiscard]] std::string protoc_encoded(const std::string& text,
                                         const std::string& message = "Profile");

[[nodiscard]] std::string go_pprof(const std::string& arguments);

// `pprof -raw` without its numbers of locations and mappings, which depend on the order.
struct RawProfile {
  std::vector<std::string> header;   // sorted: types, period, time, duration, comments
  std::vector<std::string> samples;  // sorted: "values | labels | frames"

  friend bool operator==(const RawProfile&, const RawProfile&) = default;
  friend void PrintTo(const RawProfile& raw, std::ostream* out) {
    for (const std::string& line : raw.header) *out << line << '\n';
    for (const std::string& line : raw.samples) *out << line << '\n';
  }
};
// `files`: one, or several to be merged. `with_addresses`: frames then begin with their address.
[[nodiscard]] RawProfile go_raw(const std::string& files, bool with_addresses = true);

// Two functions, one inlined into the other, called by code of libfoo.so that has no name.
[[nodiscard]] PprofProfile small_pprof();

}  // namespace profd::test
