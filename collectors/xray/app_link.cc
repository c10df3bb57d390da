#include "collectors/xray/app_link.h"

#include <poll.h>
#include <sys/socket.h>

#include <algorithm>
#include <cerrno>
#include <cstddef>
#include <cstring>
#include <string_view>
#include <utility>

#include "collectors/sandbox/packets.h"

namespace profd::xray {
namespace {

using Clock = std::chrono::steady_clock;

// A session of a million functions leaves 250, when it ends at once.
constexpr std::uint32_t kMaxLateAnswers = 4096;

Error app_is_gone() { return fail(ErrorCode::kNotFound, "the app has ended"); }

Error nonsense() { return fail(ErrorCode::kMalformed, "the app's answer makes no sense"); }

Error unasked() { return fail(ErrorCode::kMalformed, "the app answers what nobody asked"); }

Error flood() { return fail(ErrorCode::kTooLarge, "the app answers without end"); }

Error not_taken() {
  return fail(ErrorCode::kTimeout, "the app doesn't take what it is told", "it may be stopped");
}

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
      return nonsense();
  }
}

}  // namespace

// Waits as long as the socket is set to (daemon/xray/apps.cc) where the app doesn't read.
Result<void> AppLink::send(profd_xray_command_kind kind, std::span<const std::int32_t> functions) {
  profd_xray_command command{};
  command.kind = kind;
  command.session = session_;
  command.count = static_cast<std::uint32_t>(functions.size());
  std::ranges::copy(functions, command.functions);
  const std::size_t bytes = offsetof(profd_xray_command, functions) + functions.size_bytes();
  const std::string_view packet(reinterpret_cast<const char*>(&command), bytes);
  if (sandbox::send_packet(connection_.get(), packet, {})) return {};
  return errno == EAGAIN ? not_taken() : app_is_gone();
}

Result<AppLink::Answer> AppLink::receive() {
  Answer answer;
  auto received = sandbox::receive_packet(
      connection_.get(), {reinterpret_cast<char*>(&answer.answer), sizeof answer.answer});
  if (!received) return nonsense();
  if (received->bytes == 0) return app_is_gone();
  if (received->bytes != sizeof answer.answer) return nonsense();
  answer.descriptors = std::move(received->descriptors);
  return answer;
}

Result<std::optional<AppLink::Answer>> AppLink::receive_of_session() {
  auto answer = receive();
  if (!answer) return answer.error();
  if (answer->answer.session == session_) return std::optional(std::move(*answer));
  if (++late_answers_ > kMaxLateAnswers) return flood();
  return std::optional<Answer>();
}

// Answers to an earlier session, which nobody waited for, come first.
Result<AppLink::Answer> AppLink::wait_for_ready(std::chrono::milliseconds limit) {
  const Clock::time_point end = Clock::now() + limit;
  for (;;) {
    const auto left = std::chrono::duration_cast<std::chrono::milliseconds>(end - Clock::now());
    pollfd readable{.fd = connection_.get(), .events = POLLIN, .revents = 0};
    const int ready = ::poll(&readable, 1, static_cast<int>(std::max<long>(left.count(), 0)));
    if (ready < 0 && errno == EINTR) continue;
    if (ready <= 0) {
      return fail(ErrorCode::kTimeout, "the app doesn't answer", "it may be stopped");
    }
    auto answer = receive_of_session();
    if (!answer) return answer.error();
    if (*answer) return std::move(**answer);
  }
}

Result<ReadyApp> AppLink::begin(std::chrono::milliseconds limit) {
  if (auto sent = send(PROFD_XRAY_BEGIN, {}); !sent) return sent.error();
  auto answer = wait_for_ready(limit);
  if (!answer) return answer.error();
  if (answer->answer.kind == PROFD_XRAY_REFUSED) return refused(answer->answer.value);
  if (answer->answer.kind != PROFD_XRAY_READY || answer->descriptors.size() != 1) {
    return nonsense();
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
  is_to_end_ = true;
  return send(PROFD_XRAY_END, {});
}

Result<void> AppLink::take_answer() {
  const auto received = receive_of_session();
  if (!received) return received.error();
  if (!*received) return {};
  const profd_xray_answer& answer = (*received)->answer;
  if (!(*received)->descriptors.empty()) return nonsense();
  if (answer.kind == PROFD_XRAY_PATCHED && patches_under_way_ != 0) {
    if (answer.value > functions_ - patched_) return nonsense();
    --patches_under_way_;
    patched_ += answer.value;
    return {};
  }
  if (answer.kind != PROFD_XRAY_ENDED || !is_to_end_ || has_ended_) return unasked();
  has_ended_ = true;
  return {};
}

}  // namespace profd::xray
