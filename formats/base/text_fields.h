// The one reader of the kernel's text lines (/proc/kallsyms, maps): fields taken from the left,
// each checked.
//
// Failure is sticky like Cursor's: after a field that is not there every other is 0 or empty, and
// ok() says so once for the whole line. Borrows the line.

#pragma once

#include <cstdint>
#include <string_view>

namespace profd {

class TextFields {
 public:
  explicit TextFields(std::string_view line) : rest_(line) {}

  // A number without sign or prefix. Not more digits than 64 bits hold.
  std::uint64_t hexadecimal() { return number(16); }
  std::uint64_t decimal() { return number(10); }

  // Exactly this character.
  void expect(char wanted);

  // One or more blanks (spaces, tabs).
  void blanks();

  // All up to the next blank or the end; at least one character.
  std::string_view word();

  [[nodiscard]] std::string_view rest() const { return rest_; }
  [[nodiscard]] bool ok() const { return ok_; }

 private:
  std::uint64_t number(int base);

  std::string_view rest_;
  bool ok_ = true;
};

}  // namespace profd
