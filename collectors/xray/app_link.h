// The connection to an app, from profd's end (app/wire.h): asks it to record, and takes its word
// for nothing.
//
// Waits as long as the app needs, within limits. Takes no more answers than there can be: one for
// each question, and some that an earlier session left. Used in the process that follows the app.
//
// Errors, which app_end.h gives names: kNotFound, it is gone; kTimeout, it doesn't answer;
// kUnsupported, it can't, and says why; kMalformed, it answers nonsense, or what nobody asked;
// kTooLarge, it answers without end.

#pragma once

#include <chrono>
#include <cstdint>
#include <optional>
#include <span>
#include <vector>

#include "collectors/xray/app/wire.h"
#include "formats/base/result.h"
#include "formats/base/unique_fd.h"

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

  Result<ReadyApp> begin(std::chrono::milliseconds limit);

  // Empty: all functions. Their answers come by take_answer().
  Result<void> patch(std::span<const std::int32_t> functions);
  [[nodiscard]] std::uint32_t patches_under_way() const { return patches_under_way_; }
  [[nodiscard]] std::uint32_t patched() const { return patched_; }

  // Nothing is patched any more when has_ended() says so.
  Result<void> end();
  [[nodiscard]] bool has_ended() const { return has_ended_; }
  void release() { (void)send(PROFD_XRAY_RELEASE, {}); }

  // Takes one answer; call when the descriptor is readable.
  Result<void> take_answer();

  [[nodiscard]] int descriptor() const { return connection_.get(); }

 private:
  struct Answer {
    profd_xray_answer answer{};
    std::vector<UniqueFd> descriptors;
  };

  Result<void> send(profd_xray_command_kind kind, std::span<const std::int32_t> functions);
  [[nodiscard]] Result<Answer> receive();
  // None: an answer to an earlier session.
  [[nodiscard]] Result<std::optional<Answer>> receive_of_session();
  Result<Answer> wait_for_ready(std::chrono::milliseconds limit);

  UniqueFd connection_;
  std::uint32_t session_;
  std::uint32_t patches_under_way_ = 0;
  std::uint32_t patched_ = 0;
  std::uint32_t functions_ = 0;  // that it says it has
  std::uint32_t late_answers_ = 0;
  bool is_to_end_ = false;
  bool has_ended_ = false;
};

}  // namespace profd::xray
