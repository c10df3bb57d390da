#include "ctl/output/keys.h"

#include <algorithm>
#include <array>
#include <optional>
#include <utility>

namespace profd {
namespace {

constexpr char kEscapeByte = '\x1b';
constexpr std::size_t kMaxSequence = 16;

// As xterm, the Linux console, screen and tmux send them, without the ESC.
constexpr auto kSequences = std::to_array<std::pair<std::string_view, KeyCode>>({
    {"[A", KeyCode::kUp},        {"OA", KeyCode::kUp},     {"[B", KeyCode::kDown},
    {"OB", KeyCode::kDown},      {"[C", KeyCode::kRight},  {"OC", KeyCode::kRight},
    {"[D", KeyCode::kLeft},      {"OD", KeyCode::kLeft},   {"[5~", KeyCode::kPageUp},
    {"[6~", KeyCode::kPageDown}, {"[H", KeyCode::kHome},   {"OH", KeyCode::kHome},
    {"[1~", KeyCode::kHome},     {"[7~", KeyCode::kHome},  {"[F", KeyCode::kEnd},
    {"OF", KeyCode::kEnd},       {"[4~", KeyCode::kEnd},   {"[8~", KeyCode::kEnd},
    {"[Z", KeyCode::kTab},       {"OP", KeyCode::kHelp},   {"[11~", KeyCode::kHelp},
    {"[[A", KeyCode::kHelp},     {"[21~", KeyCode::kQuit},
});

bool is_final(char c) { return c >= '@' && c <= '~'; }

// The bytes of the sequence after an ESC; 0: it is not complete.
std::size_t length_of(std::string_view rest) {
  if (rest.empty()) return 0;
  if (rest[0] != '[' && rest[0] != 'O') return 1;
  const std::size_t from = rest.starts_with("[[") ? 2 : 1;
  for (std::size_t i = from; i < rest.size(); ++i) {
    if (is_final(rest[i]) || i >= kMaxSequence) return i + 1;
  }
  return 0;
}

std::optional<Key> key_of(char c) {
  if (c == '\t') return Key{.code = KeyCode::kTab};
  if (c == '\r') return Key{.character = '\n'};
  const auto byte = static_cast<unsigned char>(c);
  if (byte < ' ' || byte > '~') return std::nullopt;
  return Key{.character = c};
}

}  // namespace

// An ESC that comes alone is the key itself: a terminal sends the bytes of a sequence at once.
std::vector<Key> KeyReader::read(std::string_view bytes) {
  std::vector<Key> keys;
  pending_ += bytes;
  std::string_view rest = pending_;
  while (!rest.empty()) {
    if (rest[0] != kEscapeByte) {
      if (const auto key = key_of(rest[0])) keys.push_back(*key);
      rest.remove_prefix(1);
      continue;
    }
    if (rest.size() == 1 || rest[1] == kEscapeByte) {
      keys.push_back({.code = KeyCode::kEscape});
      rest.remove_prefix(1);
      continue;
    }
    const std::size_t length = length_of(rest.substr(1));
    if (length == 0) break;
    const auto* const known = std::ranges::find(kSequences, rest.substr(1, length),
                                                &decltype(kSequences)::value_type::first);
    if (known != kSequences.end()) keys.push_back({.code = known->second});
    rest.remove_prefix(1 + length);
  }
  pending_ = std::string(rest);
  return keys;
}

}  // namespace profd
