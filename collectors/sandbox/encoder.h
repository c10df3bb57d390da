// Appends values to the bytes of an answer, little endian; Cursor reads them back.

#pragma once

#include <cstdint>
#include <cstring>
#include <string>
#include <string_view>
#include <type_traits>
#include <utility>

namespace profd::parser {

class Encoder {
 public:
  template <class T>
  requires std::is_unsigned_v<T> Encoder& add(T value) {
    char raw[sizeof(T)];
    std::memcpy(raw, &value, sizeof(T));
    bytes_.append(raw, sizeof(T));
    return *this;
  }
  // Its length, then its bytes.
  Encoder& add(std::string_view text) {
    add(static_cast<std::uint32_t>(text.size()));
    bytes_.append(text);
    return *this;
  }
  [[nodiscard]] std::string take() { return std::move(bytes_); }

 private:
  std::string bytes_;
};

}  // namespace profd::parser
