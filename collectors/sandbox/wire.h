// Structs as bytes: the members of an aggregate in their order. A struct with other members than
// numbers, texts, ranges and such aggregates (a C array) has a list, for writing and reading:
//
//     void members(auto& wire, Is<DigestKey> auto& key) { wire(key.words); }
//
// Both sides are the same program, so numbers have the host's form; a text or a vector is its
// length (4 bytes) and its content. Reading checks bounds, and calls `bool is_valid(const T&)`
// where the struct has one, since a child's messages are as hostile as any input. Views that are
// read point into the bytes; the pointer that owns these (Owner) does not travel.

#pragma once

#include <concepts>
#include <cstdint>
#include <cstring>
#include <memory>
#include <ranges>
#include <string>
#include <string_view>
#include <type_traits>
#include <utility>

#include <boost/pfr/core.hpp>

#include "formats/base/cursor.h"
#include "formats/base/result.h"

namespace profd::sandbox {

// `T` is `Of`, const where it is written.
template <class T, class Of>
concept Is = std::same_as<std::remove_const_t<T>, Of>;

template <class T>
concept Text = std::same_as<T, std::string> || std::same_as<T, std::string_view>;

template <class T>
concept Number = std::is_arithmetic_v<T> || std::is_enum_v<T>;

template <class T>
concept Owner = std::same_as<T, std::unique_ptr<const std::string>>;

void each_member(auto& wire, auto& value) {
  if constexpr (requires { members(wire, value); }) {
    members(wire, value);
  } else {
    boost::pfr::for_each_field(value, [&wire](auto& member) { wire(member); });
  }
}

class Encoder {
 public:
  template <class T>
  Encoder& operator()(const T& value) {
    if constexpr (Text<T>) {
      add_length(value.size());
      bytes_.append(value);
    } else if constexpr (Number<T>) {
      bytes_.append(reinterpret_cast<const char*>(&value), sizeof value);
    } else if constexpr (std::ranges::range<T>) {
      if constexpr (requires(T & list) { list.emplace_back(); }) add_length(value.size());
      for (const auto& element : value) (*this)(element);
    } else if constexpr (!Owner<T>) {
      each_member(*this, value);
    }
    return *this;
  }

  [[nodiscard]] std::string take() { return std::move(bytes_); }

 private:
  void add_length(std::size_t length) { (*this)(static_cast<std::uint32_t>(length)); }

  std::string bytes_;
};

class Decoder {
 public:
  explicit Decoder(std::string_view bytes) : cursor_(bytes) {}

  template <class T>
  Decoder& operator()(T& value) {
    if constexpr (Text<T>) {
      value = cursor_.read_bytes(cursor_.read<std::uint32_t>());
    } else if constexpr (std::same_as<T, bool>) {
      value = cursor_.read<std::uint8_t>() != 0;
    } else if constexpr (Number<T>) {
      const std::string_view raw = cursor_.read_bytes(sizeof value);
      if (!raw.empty()) std::memcpy(&value, raw.data(), sizeof value);
    } else if constexpr (requires { value.emplace_back(); }) {
      // A length that is not true ends with the bytes: each element has some.
      const auto length = cursor_.read<std::uint32_t>();
      for (std::uint32_t i = 0; i < length && ok(); ++i) (*this)(value.emplace_back());
    } else if constexpr (std::ranges::range<T>) {
      for (auto& element : value) (*this)(element);
    } else if constexpr (!Owner<T>) {
      each_member(*this, value);
      if constexpr (requires { is_valid(value); }) is_valid_ = is_valid_ && is_valid(value);
    }
    return *this;
  }

  // Whether all bytes were read, as valid values.
  [[nodiscard]] bool is_complete() const { return ok() && cursor_.remaining() == 0; }

 private:
  [[nodiscard]] bool ok() const { return cursor_.ok() && is_valid_; }

  Cursor cursor_;
  bool is_valid_ = true;
};

template <class T>
[[nodiscard]] std::string encode(const T& value) {
  return Encoder()(value).take();
}

// kMalformed where the bytes are not those of one valid value.
template <class T>
[[nodiscard]] Result<T> decode(std::string_view bytes) {
  T value{};
  Decoder decoder(bytes);
  decoder(value);
  if (!decoder.is_complete()) {
    return fail(ErrorCode::kMalformed, "a message of a child process is malformed");
  }
  return value;
}

}  // namespace profd::sandbox
