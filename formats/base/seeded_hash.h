// A 64-bit hash whose results a sampled process cannot predict.
//
// A process chooses its own addresses. With a fixed hash it could choose colliding ones, and
// lookups would take linear time. Each word is mixed into the state by one 64 x 64 -> 128 bit
// multiplication; the state starts from a random seed (the step of wyhash).

#pragma once

#include <algorithm>
#include <cstdint>
#include <cstring>
#include <span>
#include <string_view>

namespace profd {

// A seed from the random source of the kernel, or from the clock where that fails. Waits only while
// a host boots and has no randomness yet.
[[nodiscard]] std::uint64_t random_seed();

class SeededHash {
 public:
  explicit SeededHash(std::uint64_t seed) : state_(seed ^ kFirst) {}

  void add(std::uint64_t word) { state_ = fold(state_ ^ word, kSecond); }
  void add(std::span<const std::uint64_t> words) {
    for (const std::uint64_t word : words) add(word);
  }
  // The length, and the bytes eight at a time.
  void add_text(std::string_view text) {
    add(text.size());
    for (; !text.empty(); text.remove_prefix(std::min(text.size(), sizeof(std::uint64_t)))) {
      std::uint64_t word = 0;
      std::memcpy(&word, text.data(), std::min(text.size(), sizeof word));
      add(word);
    }
  }
  [[nodiscard]] std::uint64_t value() const { return fold(state_, kFirst); }

 private:
  __extension__ using Wide = unsigned __int128;
  static constexpr std::uint64_t kFirst = 0xa0761d6478bd642f;
  static constexpr std::uint64_t kSecond = 0xe7037ed1a0b428db;

  static std::uint64_t fold(std::uint64_t a, std::uint64_t b) {
    const Wide product = Wide{a} * b;
    return static_cast<std::uint64_t>(product) ^ static_cast<std::uint64_t>(product >> 64);
  }

  std::uint64_t state_;
};

}  // namespace profd
