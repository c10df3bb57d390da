// Machine code for tests, written by hand with its instructions beside it.

#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <string>

namespace profd::test {

class MadeCode {
 public:
  explicit MadeCode(std::uint64_t address) : address_(address) {}

  // A literal without its NUL.
  template <std::size_t Bytes>
  MadeCode& add(const char (&bytes)[Bytes]) {
    code_.append(bytes, Bytes - 1);
    return *this;
  }
  MadeCode& int32(std::int64_t value) {
    for (int shift = 0; shift < 32; shift += 8) code_ += static_cast<char>(value >> shift);
    return *this;
  }
  // The distance of `target` from the end of the instruction, which has `behind` more bytes.
  MadeCode& to(std::uint64_t target, unsigned behind = 0) {
    return int32(static_cast<std::int64_t>(target - (address_ + code_.size() + 4 + behind)));
  }

  [[nodiscard]] const std::string& bytes() const { return code_; }
  [[nodiscard]] std::span<const std::uint8_t> code() const {
    return {reinterpret_cast<const std::uint8_t*>(code_.data()), code_.size()};
  }
  [[nodiscard]] std::uint64_t address() const { return address_; }

 private:
  std::uint64_t address_;
  std::string code_;
};

}  // namespace profd::test
