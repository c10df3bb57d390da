// The connection to an app, from profd's end (app/wire.h): asks it to record, and takes its word
// for nothing.
//
// Waits as long as the app needs, within limits. Used in the process that follows the app.

#pragma once

#include <chrono>
#include <cstdint>
#include <optional>
#include <span>
#include <vector>

#include "collectors/xray/app/wire.h"
#include "formats/result.h"
#include "formats/unique_fd.h"

namespace profd::xray {

// What an app says of itself.
struct ReadyApp {
  UniqueFd memory;  // not looked at yet
  std::uint32_t functions = 0;
  std::uint64_t first_function = 0;  // address of function 1
};

class AppLink {
 public:
  AppLink(UniqueFd connection, std::uint32_t session)
      : connection_(std::move(connection)), session_(session) {}

  // kUnavailable: it has ended; kTimeout: it doesn't answer; kUnsupported: it can't, and says why;
  // kMalformed: it answers nonsense.
  Result<ReadyApp> begin(std::chrono::milliseconds limit);

  // Empty: all functions. Their answers come by next_answer().
  Result<void> patch(std::span<const std::int32_t> functions);
  [[nodiscard]] std::uint32_t patches_under_way() const { return patches_under_way_; }
  [[nodiscard]] std::uint32_t patched() const { return patched_; }

  // Nothing is patched any more when has_ended() says so.
  bool end() { return send(PROFD_XRAY_END, {}); }
  [[nodiscard]] bool has_ended() const { return has_ended_; }
  bool release() { return send(PROFD_XRAY_RELEASE, {}); }

  // Takes one answer; call when the descriptor is readable. False: the app is gone, or talks
  // nonsense.
  bool take_answer();

  [[nodiscard]] int descriptor() const { return connection_.get(); }

 private:
  struct Answer {
    profd_xray_answer answer{};
    std::vector<UniqueFd> descriptors;
  };

  bool send(profd_xray_command_kind kind, std::span<const std::int32_t> functions);
  [[nodiscard]] Result<Answer> receive();
  Result<Answer> wait_for_ready(std::chrono::milliseconds limit);

  UniqueFd connection_;
  std::uint32_t session_;
  std::uint32_t patches_under_way_ = 0;
  std::uint32_t patched_ = 0;
  bool has_ended_ = false;
};

}  // namespace profd::xray
