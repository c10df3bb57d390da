#include "collectors/xray/app_link.h"

#include <poll.h>
#include <sys/socket.h>

#include <algorithm>
#include <cerrno>
#include <cstddef>
#include <cstring>
#include <string_view>
#include <utility>

#include "collectors/door/app_packets.h"
#include "collectors/sandbox/packets.h"

namespace profd::xray {
namespace {

using SteadyClock = std::chrono::steady_clock;

// A session of a million functions that ends at once leaves 250 answers.
constexpr std::uint32_t kMaxLateAnswers = 4096;
constexpr std::chrono::milliseconds kSendLimit{5000};

// False after the time.
bool wait_for(int fd, short events, std::chrono::milliseconds limit) {
  const SteadyClock::time_point end = SteadyClock::now() + limit;
  pollfd state{.fd = fd, .events = events, .revents = 0};
  int ready = 0;
  do {
    const auto left =
        std::chrono::duration_cast<std::chrono::milliseconds>(end - SteadyClock::now());
    ready = ::poll(&state, 1, static_cast<int>(std::max<long>(left.count(), 0)));
  } while (ready < 0 && errno == EINTR);
  return ready > 0;
}

Error app_is_gone() { return fail(ErrorCode::kNotFound, "the app has ended"); }

Error invalid() { return fail(ErrorCode::kMalformed, "the app sent an invalid answer"); }

Error refused(std::uint32_t reason) {
  switch (reason) {
    case PROFD_XRAY_NOT_INSTRUMENTED:
      return fail(ErrorCode::kUnsupported, "the app has no instrumented function",
                  "build it with clang -fxray-instrument");
    case PROFD_XRAY_OTHER_MODE:
      return fail(ErrorCode::kUnsupported, "the app uses XRay itself, in another mode");
    case PROFD_XRAY_NO_MEMORY:
      return fail(ErrorCode::kUnsupported, "the app has no memory for its records");
    default:
      return invalid();
  }
}

}  // namespace

DetachReason detach_reason_of(const Error& error) {
  switch (error.code) {
    case ErrorCode::kNotFound:
      return DetachReason::kGone;
    case ErrorCode::kTimeout:
      return DetachReason::kSilent;
    case ErrorCode::kUnsupported:
      return DetachReason::kRefused;
    case ErrorCode::kTooLarge:
      return DetachReason::kFlood;
    default:
      return DetachReason::kNonsense;
  }
}

Result<void> AppLink::receive_connection(std::chrono::milliseconds limit) {
  if (!wait_for(door_.get(), POLLIN, limit)) {
    return fail(ErrorCode::kTimeout, "the app's connection does not come");
  }
  door::PassedPacket packet;
  auto received = sandbox::receive_packet(door_.get(), sandbox::buffer_of(packet));
  if (!received) return received.error();
  if (received->descriptors.size() != 1) return app_is_gone();
  connection_ = std::move(received->descriptors[0]);
  door_.reset();
  return {};
}

// With room for one packet more, the kernel does not wait for room.
Result<void> AppLink::send(profd_xray_command_kind kind, std::span<const std::int32_t> functions) {
  profd_xray_command command{};
  command.kind = kind;
  command.session = session_;
  command.count = static_cast<std::uint32_t>(functions.size());
  std::ranges::copy(functions, command.functions);
  const std::size_t bytes = offsetof(profd_xray_command, functions) + functions.size_bytes();
  const std::string_view packet(reinterpret_cast<const char*>(&command), bytes);
  if (!wait_for(connection_.get(), POLLOUT, kSendLimit)) {
    return fail(ErrorCode::kTimeout, "the app does not read its commands", "it may be stopped");
  }
  if (!sandbox::send_packet(connection_.get(), packet, {})) return app_is_gone();
  return {};
}

Result<std::optional<AppLink::Answer>> AppLink::receive() {
  Answer answer;
  auto received = sandbox::receive_packet(
      connection_.get(), {reinterpret_cast<char*>(&answer.answer), sizeof answer.answer});
  if (!received) return invalid();
  if (received->bytes == 0) return app_is_gone();
  if (received->bytes != sizeof answer.answer) return invalid();
  answer.descriptors = std::move(received->descriptors);
  if (answer.answer.session == session_) return std::optional(std::move(answer));
  if (++late_answers_ > kMaxLateAnswers) {
    return fail(ErrorCode::kTooLarge, "the app sent more answers than there were requests");
  }
  return std::optional<Answer>();
}

// Answers to an earlier session, for which the daemon did not wait, come first.
Result<AppLink::Answer> AppLink::wait_for_ready(std::chrono::milliseconds limit) {
  const SteadyClock::time_point end = SteadyClock::now() + limit;
  for (;;) {
    const auto left =
        std::chrono::duration_cast<std::chrono::milliseconds>(end - SteadyClock::now());
    if (!wait_for(connection_.get(), POLLIN, left)) {
      return fail(ErrorCode::kTimeout, "the app does not answer", "it may be stopped");
    }
    auto answer = receive();
    if (!answer) return answer.error();
    if (*answer) return std::move(**answer);
  }
}

Result<ReadyApp> AppLink::begin(std::chrono::milliseconds limit) {
  if (auto connected = receive_connection(limit); !connected) return connected.error();
  if (auto sent = send(PROFD_XRAY_BEGIN, {}); !sent) return sent.error();
  auto answer = wait_for_ready(limit);
  if (!answer) return answer.error();
  if (answer->answer.kind == PROFD_XRAY_REFUSED) return refused(answer->answer.value);
  if (answer->answer.kind != PROFD_XRAY_READY || answer->descriptors.size() != 1) {
    return invalid();
  }
  functions_ = answer->answer.function;
  return ReadyApp{.memory = std::move(answer->descriptors[0]),
                  .functions = answer->answer.function,
                  .first_function = answer->answer.first_function};
}

Result<void> AppLink::patch(std::span<const std::int32_t> functions) {
  do {
    const auto some =
        functions.first(std::min<std::size_t>(functions.size(), PROFD_XRAY_FUNCTIONS_A_PACKET));
    if (auto sent = send(PROFD_XRAY_PATCH, some); !sent) return sent;
    ++patches_under_way_;
    functions = functions.subspan(some.size());
  } while (!functions.empty());
  return {};
}

Result<void> AppLink::end() {
  is_ending_ = true;
  return send(PROFD_XRAY_END, {});
}

Result<void> AppLink::take_answer() {
  const auto received = receive();
  if (!received) return received.error();
  if (!*received) return {};
  const profd_xray_answer& answer = (*received)->answer;
  if (!(*received)->descriptors.empty()) return invalid();
  if (answer.kind == PROFD_XRAY_PATCHED && patches_under_way_ != 0) {
    if (answer.value > functions_ - patched_) return invalid();
    --patches_under_way_;
    patched_ += answer.value;
    return {};
  }
  if (answer.kind != PROFD_XRAY_ENDED || !is_ending_ || has_ended_)
    return fail(ErrorCode::kMalformed, "the app sent an unexpected answer");
  has_ended_ = true;
  return {};
}

}  // namespace profd::xray
