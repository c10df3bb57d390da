// The one reader of binary input. Every primitive checks bounds, so that a parser reads from top to
// bottom without a visible `if`.
//
// Failure is sticky: a read past the end and every read after it return 0 or an empty view, and the
// position stays. A parser checks ok() before it uses what it has read, and in each iteration of a
// loop. Borrows the bytes; copies are cheap.

#pragma once

#include <algorithm>
#include <bit>
#include <concepts>
#include <cstddef>
#include <cstdint>
#include <string_view>

#include <boost/endian/conversion.hpp>

namespace profd {

class Cursor {
 public:
  explicit Cursor(std::string_view bytes, std::endian order = std::endian::little)
      : bytes_(bytes), order_(order) {}

  template <std::unsigned_integral T>
  T read() {
    const std::string_view raw = read_bytes(sizeof(T));
    if (raw.empty()) return 0;
    const auto* first = reinterpret_cast<const unsigned char*>(raw.data());
    return order_ == std::endian::little
               ? boost::endian::endian_load<T, sizeof(T), boost::endian::order::little>(first)
               : boost::endian::endian_load<T, sizeof(T), boost::endian::order::big>(first);
  }

  std::string_view read_bytes(std::size_t count) {
    if (!ok_ || count > remaining()) {
      ok_ = false;
      return {};
    }
    const std::string_view taken = bytes_.substr(offset_, count);
    offset_ += count;
    return taken;
  }

  // Moves to the next multiple of `alignment`, counted from the start of the bytes, or to their
  // end if that comes first.
  void align(std::size_t alignment) {
    const std::size_t over = offset_ % alignment;
    if (over != 0) read_bytes(std::min(alignment - over, remaining()));
  }

  [[nodiscard]] bool ok() const { return ok_; }
  [[nodiscard]] std::size_t offset() const { return offset_; }
  [[nodiscard]] std::size_t remaining() const { return bytes_.size() - offset_; }

 private:
  std::string_view bytes_;
  std::size_t offset_ = 0;
  std::endian order_;
  bool ok_ = true;
};

}  // namespace profd
