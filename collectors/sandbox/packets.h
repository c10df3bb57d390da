// What travels over the socket pair between the daemon and a sandboxed child: one packet for a
// request, one for its answer.
//
// Both sides run the same program, so packets are plain structs; the daemon checks those of a child
// like any other input. Results of some size travel in a memfd that the child seals.

#pragma once

#include <array>
#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <type_traits>
#include <vector>

#include "formats/base/result.h"
#include "formats/base/unique_fd.h"

namespace profd::sandbox {

// The first request to every child; its words are {memory_bytes, file_bytes} of SandboxLimits.
inline constexpr std::uint32_t kStart = 0;

struct Request {
  std::uint32_t operation = 0;  // kStart, or one of the child's kind
  std::uint32_t reserved = 0;
  std::array<std::uint64_t, 2> words{};
};

inline constexpr std::size_t kMaxTextBytes = 480;

// Status 0 comes with one descriptor, a sealed memfd that holds the result. Any other status comes
// with a text: the error's message and behind it its hint, cut where they don't fit.
struct Answer {
  std::uint32_t status = 0;  // 0, or 1 + ErrorCode
  std::uint32_t text_bytes = 0;
  std::uint32_t hint_bytes = 0;  // part of text_bytes
  std::array<char, kMaxTextBytes> text{};
};

[[nodiscard]] Answer answer_of(const Error& error);
// The error that an answer reports. None for status 0, and for an answer whose numbers are invalid.
[[nodiscard]] std::optional<Error> error_of(const Answer& answer);

inline constexpr std::size_t kMaxDescriptors = 4;

struct Received {
  std::size_t bytes = 0;  // 0: the other side has closed the socket
  std::vector<UniqueFd> descriptors;
};

// A struct that is a packet, as its bytes, and as the buffer that a packet is received into.
template <class Packet>
requires std::is_trivially_copyable_v<Packet>
[[nodiscard]] std::string_view bytes_of(const Packet& packet) {
  return {reinterpret_cast<const char*>(&packet), sizeof packet};
}
template <class Packet>
requires std::is_trivially_copyable_v<Packet>
[[nodiscard]] std::span<char> buffer_of(Packet& packet) {
  return {reinterpret_cast<char*>(&packet), sizeof packet};
}

// Sends one packet with the descriptors, which stay the caller's. False with errno.
[[nodiscard]] bool send_packet(int socket, std::string_view bytes,
                               std::span<const int> descriptors = {});

// Receives one packet. kMalformed if it is longer than `into` or has more than kMaxDescriptors.
[[nodiscard]] Result<Received> receive_packet(int socket, std::span<char> into);

// A memfd with the bytes, which nobody can change afterwards.
[[nodiscard]] Result<UniqueFd> make_sealed(std::string_view bytes);

// The content of a sealed memfd. kMalformed for any other kind of file, kTooLarge above
// `max_bytes`.
[[nodiscard]] Result<std::string> read_sealed(int fd, std::uint64_t max_bytes);

}  // namespace profd::sandbox
