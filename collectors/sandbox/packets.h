// What goes over the parser's socket pair: one packet for a request, one for its answer.
//
// Both sides run the same program, so packets are plain structs; but the child's are believed no
// more than a stranger's. Results of some size travel in a memfd that the child seals.

#pragma once

#include <array>
#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "formats/base/result.h"
#include "formats/base/unique_fd.h"

namespace profd::parser {

enum class Operation : std::uint32_t {
  kStart = 1,          // the first request: words are {memory_bytes, answer_bytes}
  kReadUnwindSource,   // a file; words are the digest key
  kMakeUnwindTable,    // a file and perhaps its debug file
  kReadElfSummary,     // a file
  kFindElfSymbols,     // a file and one with the addresses, 8 bytes each; the budget
  kListElfFunctions,   // a file
  kFindXrayProcess,    // a trace
  kReadXrayLog,        // a trace and perhaps its program
  kFollowXray,         // a file and a connection: no answer, but collectors/xray/follower.h
  kReadJitDump,        // a file and one with the state to go on from
  kReadPerfMap,        // likewise
  kReadJitCode,        // a file and one with what is asked
  kReadJitUnwindRows,  // likewise
};

struct Request {
  Operation operation{};
  std::uint32_t reserved = 0;
  std::array<std::uint64_t, 2> words{};
};

inline constexpr std::size_t kMaxTextBytes = 480;

// With one descriptor, a sealed memfd with the result, where status is 0; else with a text, which
// is the error's message and behind it its hint, cut where they don't fit.
struct Answer {
  std::uint32_t status = 0;  // 0, or 1 + ErrorCode
  std::uint32_t text_bytes = 0;
  std::uint32_t hint_bytes = 0;  // of these
  std::array<char, kMaxTextBytes> text{};
};

[[nodiscard]] Answer answer_of(const Error& error);
// None for an answer that is no error, or not a possible one.
[[nodiscard]] std::optional<Error> error_of(const Answer& answer);

inline constexpr std::size_t kMaxDescriptors = 2;

struct Received {
  std::size_t bytes = 0;  // 0: the other side is gone
  std::vector<UniqueFd> descriptors;
};

// One packet with the descriptors. False with errno.
[[nodiscard]] bool send_packet(int socket, std::string_view bytes,
                               std::span<const int> descriptors);

// One packet; an error also for one that is longer than `into` or has more descriptors.
[[nodiscard]] Result<Received> receive_packet(int socket, std::span<char> into);

// A memfd with the bytes that nobody can change any more.
[[nodiscard]] Result<UniqueFd> make_sealed(std::string_view bytes);

// What a sealed memfd holds. kMalformed for anything else behind the descriptor, kTooLarge beyond
// `max_bytes`.
[[nodiscard]] Result<std::string> read_sealed(int fd, std::uint64_t max_bytes);

}  // namespace profd::parser
