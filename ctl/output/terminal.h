// The terminal that standard output may be: its size, its colours, and a pager.

#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>

#include "formats/base/result.h"

namespace profd {

// What text is laid out for.
struct Screen {
  std::size_t width = 0;   // columns; 0: no terminal, lines have any length
  std::size_t height = 0;  // lines; 0: unknown
  bool has_color = false;

  [[nodiscard]] bool is_terminal() const { return width != 0; }
};

// The terminal behind the descriptor. Colours are off where NO_COLOR (https://no-color.org) is set
// and not empty, and for TERM=dumb.
[[nodiscard]] Screen screen_of(int fd);

enum class TextColor : std::uint8_t { kNone, kBold, kDim, kRed, kGreen, kYellow, kCyan };

// The text in that colour, where the screen has colours.
[[nodiscard]] std::string colored(std::string_view text, TextColor color, const Screen& screen);

// Columns that the text takes: one for each character of UTF-8.
[[nodiscard]] std::size_t columns_of(std::string_view text);

// The end of a text that is wider than `columns`, which begins with "…": names differ at their end.
[[nodiscard]] std::string end_that_fits(std::string_view text, std::size_t columns);

// The start of a text that is wider than `columns`, which then ends in "…".
[[nodiscard]] std::string start_that_fits(std::string_view text, std::size_t columns);

// The text in lines that fit the screen, broken at blanks; a longer word has a line of its own.
[[nodiscard]] std::string wrapped(std::string_view text, const Screen& screen);

// Shows the text with $PAGER, or less. False: there is none ("" and "cat" are none), or it could
// not be started; the caller then prints the text.
[[nodiscard]] bool show_in_pager(std::string_view text);

}  // namespace profd
