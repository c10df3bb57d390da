// A reader of the text lines that the kernel writes (/proc/kallsyms, /proc/PID/maps, ...): it takes
// fields from the front of a line and checks each.
//
// Failure is sticky as in Cursor: after a missing field, every later field is 0 or empty, and ok()
// is false. Borrows the line.

#pragma once

#include <charconv>
#include <concepts>
#include <cstdint>
#include <string>
#include <string_view>
#include <system_error>

namespace profd {

class TextFields {
 public:
  explicit TextFields(std::string_view line) : rest_(line) {}

  // A number without a sign or a prefix that fits T.
  template <std::unsigned_integral T = std::uint64_t>
  T hexadecimal() {
    return number<T>(16);
  }
  template <std::unsigned_integral T = std::uint64_t>
  T decimal() {
    return number<T>(10);
  }

  // Exactly this character.
  void expect(char wanted);

  // One or more blanks (spaces, tabs).
  void blanks();

  // At least one character, up to the next blank or the end.
  std::string_view word();
  std::string_view word_after_blanks() {
    blanks();
    return word();
  }

  [[nodiscard]] std::string_view rest() const { return rest_; }
  [[nodiscard]] bool ok() const { return ok_; }

 private:
  template <class T>
  T number(int base) {
    T value = 0;
    const auto [end, error] =
        std::from_chars(rest_.data(), rest_.data() + rest_.size(), value, base);
    ok_ = ok_ && error == std::errc();
    if (!ok_) return 0;
    rest_.remove_prefix(static_cast<std::size_t>(end - rest_.data()));
    return value;
  }

  std::string_view rest_;
  bool ok_ = true;
};

// `text` without this end; unchanged if it ends otherwise.
[[nodiscard]] inline std::string_view without_suffix(std::string_view text,
                                                     std::string_view suffix) {
  return text.ends_with(suffix) ? text.substr(0, text.size() - suffix.size()) : text;
}

// Removes the first line and its line feed from `text`, and returns the line.
[[nodiscard]] std::string_view take_line(std::string_view& text);

// Replaces each "\ooo" (three octal digits) by its character: the kernel writes blanks, line feeds
// and backslashes of paths so.
[[nodiscard]] std::string without_octal_escapes(std::string_view text);

}  // namespace profd
