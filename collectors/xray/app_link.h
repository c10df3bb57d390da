// profd's side of the connection to an app (app/wire.h): sends commands, and checks the answers.
//
// Waits for an answer up to a limit. Accepts one answer for each command, and a limited number that
// an earlier session left. Used in the follower.
//
// Errors: kNotFound, the app has ended; kTimeout, it does not answer; kUnsupported, it can't
// record; kMalformed, its answer is invalid or unexpected; kTooLarge, it sends too many answers.

#pragma once

#include <chrono>
#include <cstdint>
#include <optional>
#include <span>
#include <vector>

#include "collectors/xray/app/wire.h"
#include "formats/base/result.h"
#include "formats/base/unique_fd.h"
#include "formats/xray/detach_reason.h"

namespace profd::xray {

// An app's answer to BEGIN.
struct ReadyApp {
  UniqueFd memory;  // not checked yet
  std::uint32_t functions = 0;
  std::uint64_t first_function = 0;  // address of function 1
};

// The reason for which an app detaches after an error of AppLink.
[[nodiscard]] DetachReason detach_reason_of(const Error& error);

class AppLink {
 public:
  // `door`: the connection comes over it (door::PassedPacket).
  AppLink(UniqueFd door, std::uint32_t session) : door_(std::move(door)), session_(session) {}

  // Waits for the connection, and then for the app's answer, up to the limit each.
  Result<ReadyApp> begin(std::chrono::milliseconds limit);

  // Empty: all functions. take_answer() receives the answers.
  Result<void> patch(std::span<const std::int32_t> functions);
  [[nodiscard]] std::uint32_t patches_under_way() const { return patches_under_way_; }
  [[nodiscard]] std::uint32_t patched() const { return patched_; }

  // Asks the app to unpatch its functions. They are unpatched when has_ended() is true.
  Result<void> end();
  [[nodiscard]] bool has_ended() const { return has_ended_; }
  void release() { (void)send(PROFD_XRAY_RELEASE, {}); }

  // Receives one answer. To be called when the descriptor is readable.
  Result<void> take_answer();

  [[nodiscard]] int descriptor() const { return connection_.get(); }

 private:
  struct Answer {
    profd_xray_answer answer{};
    std::vector<UniqueFd> descriptors;
  };

  Result<void> receive_connection(std::chrono::milliseconds limit);
  Result<void> send(profd_xray_command_kind kind, std::span<const std::int32_t> functions);
  // None: the answer is to an earlier session.
  [[nodiscard]] Result<std::optional<Answer>> receive();
  Result<Answer> wait_for_ready(std::chrono::milliseconds limit);

  UniqueFd door_;
  UniqueFd connection_;
  std::uint32_t session_;
  std::uint32_t patches_under_way_ = 0;
  std::uint32_t patched_ = 0;
  std::uint32_t functions_ = 0;  // of the app, as it reports
  std::uint32_t late_answers_ = 0;
  bool is_ending_ = false;  // END is sent
  bool has_ended_ = false;
};

}  // namespace profd::xray
