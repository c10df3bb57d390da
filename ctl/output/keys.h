// The keys of a terminal, from the bytes that it sends.

#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

namespace profd {

enum class KeyCode : std::uint8_t {
  kCharacter,
  kUp,
  kDown,
  kLeft,
  kRight,
  kPageUp,
  kPageDown,
  kHome,
  kEnd,
  kTab,
  kEscape,
  kHelp,  // F1
  kQuit,  // F10
};

struct Key {
  KeyCode code = KeyCode::kCharacter;
  char character = '\0';  // of kCharacter

  friend bool operator==(const Key&, const Key&) = default;
};

class KeyReader {
 public:
  // The keys that are complete with `bytes`. The start of a sequence waits for the rest of it;
  // sequences of other keys are skipped.
  [[nodiscard]] std::vector<Key> read(std::string_view bytes);

 private:
  std::string pending_;
};

}  // namespace profd
