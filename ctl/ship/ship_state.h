// The position of an endpoint in the history, and what became of what was sent: one small file for
// each endpoint, so that nothing is sent twice.

#pragma once

#include <chrono>
#include <cstdint>
#include <map>
#include <string>
#include <string_view>

#include "formats/base/result.h"
#include "formats/base/unique_fd.h"

namespace profd {

// By the clock of the host.
using ShipTime = std::chrono::sys_time<std::chrono::nanoseconds>;

// What is lost has a reason: "too_old", "refused", ...
struct ShipState {
  std::string window;                 // the last one that is done; "" before the first
  std::string in_flight;              // a part of this one may have arrived; "": none
  std::uint64_t windows_sent = 0;     // whole or in part, and those without anything to send
  std::uint64_t windows_unknown = 0;  // in flight when profctl ended
  std::uint64_t profiles_sent = 0;
  std::uint64_t bytes_sent = 0;  // of profiles, not packed
  // Windows of which nothing was stored, by the reason of the first loss. The profiles of those
  // that were read are in profiles_dropped too.
  std::map<std::string, std::uint64_t> windows_dropped;
  std::map<std::string, std::uint64_t> profiles_dropped;
  std::map<std::string, std::uint64_t> bytes_dropped;  // of these profiles
  std::uint64_t rows_dropped = 0;                      // samples with a stack that a rule drops
  std::uint64_t services_other = 0;                    // services of windows that were in "other"
  std::uint64_t series_joined = 0;                     // series of windows that lost their labels

  friend bool operator==(const ShipState&, const ShipState&) = default;
};

// What was counted between two states of one process, of which `now` is the later one. Its
// position is that of `now`.
[[nodiscard]] ShipState counted_since(const ShipState& start, ShipState now);

[[nodiscard]] std::string to_json(const ShipState& state);
[[nodiscard]] Result<ShipState> parse_ship_state(std::string_view json);

// Move-only. One process at a time has an endpoint's file: it is locked while the object lives.
class ShipStateFile {
 public:
  // `directory` is there and writable. kBusy: another process has it. kMalformed, with what to do:
  // the file is not what store() wrote, and what was sent is not known.
  [[nodiscard]] static Result<ShipStateFile> open(const std::string& directory,
                                                  const std::string& endpoint);

  [[nodiscard]] const ShipState& state() const { return state_; }

  // Survives a crash of the host once it has returned. After an error, the file is the former
  // one or this one.
  [[nodiscard]] Result<void> store(ShipState state);

 private:
  ShipStateFile() = default;

  std::string name_;
  std::string path_;  // for errors
  UniqueFd directory_;
  UniqueFd lock_;
  ShipState state_;
};

}  // namespace profd
