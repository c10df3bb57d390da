// Durations and sizes as people write them: "500ms", "60s", "7d"; "64KiB", "1GiB".
//
// A number, perhaps with a fraction, is directly followed by its unit. Durations: ms, s, m, h, d.
// Sizes: B, KiB, MiB, GiB, TiB.

#pragma once

#include <chrono>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

namespace profd {

// None for another text, and for more than a hundred years.
[[nodiscard]] std::optional<std::chrono::milliseconds> parse_duration(std::string_view text);

// None for another text, and for more than 8 EiB.
[[nodiscard]] std::optional<std::uint64_t> parse_bytes(std::string_view text);

// The exact value in the largest unit that leaves no fraction: "90s", "7d".
[[nodiscard]] std::string exact_duration_text(std::chrono::milliseconds duration);
[[nodiscard]] std::string exact_bytes_text(std::uint64_t bytes);

}  // namespace profd
