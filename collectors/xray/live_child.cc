#include "collectors/xray/live_child.h"

#include <algorithm>
#include <array>

#include "collectors/sandbox/spawn.h"
#include "collectors/xray/follower.h"

namespace profd::xray {
namespace {

// A quarter of a session's memory is for the result, the rest for the child.
constexpr std::uint64_t kResultPart = 4;

LiveEvent failed(Error error) {
  return {
      .kind = EventKind::kFailed, .reason = DetachReason::kFollowerDied, .error = std::move(error)};
}

Error invalid_packet() {
  return fail(ErrorCode::kMalformed, "the process that followed the app sent an invalid packet");
}

}  // namespace

Result<LiveChild> LiveChild::start(int program, int door, std::uint32_t session,
                                   std::string_view pattern, std::uint64_t memory_bytes) {
  if (auto fits = check_pattern(pattern); !fits) return fits.error();
  const std::uint64_t result_bytes = memory_bytes / kResultPart;
  const std::uint64_t work_bytes = memory_bytes - result_bytes;
  auto child =
      sandbox::start_child({.memory_bytes = work_bytes, .file_bytes = result_bytes},
                           [](int socket) { return sandbox::spawn_child(kFollowerChild, socket); });
  if (!child) return child.error();
  CommandPacket packet{.command = Command::kFollow,
                       .session = session,
                       .pattern_bytes = static_cast<std::uint32_t>(pattern.size()),
                       .memory_bytes = work_bytes};
  std::ranges::copy(pattern, packet.pattern.begin());
  const int files[] = {program, door};
  // If this fails, the child has ended already, and next_event() returns why.
  (void)sandbox::send_packet(child->socket.get(), sandbox::bytes_of(packet), files);
  return LiveChild(std::move(child->socket), child->process);
}

bool LiveChild::send(Command command) {
  const CommandPacket packet{.command = command};
  return sandbox::send_packet(socket_.get(), sandbox::bytes_of(packet));
}

std::optional<LiveEvent> LiveChild::next_event() {
  // The first packet is the answer to the start of the child, all others are events.
  std::array<char, std::max(sizeof(EventPacket), sizeof(sandbox::Answer))> bytes{};
  auto received = sandbox::receive_packet(socket_.get(), bytes);
  if (!received) return failed(invalid_packet());
  if (received->bytes == 0) {
    return failed(fail(ErrorCode::kUnavailable, "the process that followed the app died"));
  }
  if (!std::exchange(is_started_, true)) {
    sandbox::Answer answer;
    if (received->bytes != sizeof answer) return failed(invalid_packet());
    std::copy_n(bytes.begin(), sizeof answer, reinterpret_cast<char*>(&answer));
    if (auto error = sandbox::error_of(answer)) return failed(std::move(*error));
    return std::nullopt;
  }
  EventPacket packet;
  if (received->bytes != sizeof packet) return failed(invalid_packet());
  std::copy_n(bytes.begin(), sizeof packet, reinterpret_cast<char*>(&packet));
  LiveEvent event{.kind = packet.kind,
                  .functions = packet.functions,
                  .patched = packet.patched,
                  .records = packet.records,
                  .dropped = packet.dropped,
                  .reason = packet.reason};
  if (packet.kind == EventKind::kFailed || packet.kind == EventKind::kDetached) {
    auto error = sandbox::error_of(packet.error);
    event.error = error ? std::move(*error) : invalid_packet();
  }
  if (packet.kind == EventKind::kResult) {
    if (received->descriptors.size() != 1) return failed(invalid_packet());
    event.result = std::move(received->descriptors[0]);
  }
  return event;
}

}  // namespace profd::xray
