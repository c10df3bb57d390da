#include "collectors/door/app_door_child.h"

#include <fcntl.h>
#include <sys/resource.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <span>
#include <utility>

#include "collectors/door/app_door.h"
#include "collectors/door/closer.h"
#include "collectors/sandbox/packets.h"
#include "collectors/sandbox/spawn.h"

namespace profd::door {
namespace {

constexpr sandbox::SandboxLimits kAppDoorLimits{.memory_bytes = std::uint64_t{16} << 20,
                                                .file_bytes = 4096};

struct Started {
  sandbox::ChildProcess process;
  WatchedPage page;
};

// Sends the child its first packet, with `socket` and its page. If that fails, the child has ended
// already, and its socket says so.
Result<Started> start_with(const sandbox::ChildKind& kind, std::string_view packet, int socket) {
  auto page = WatchedPage::make();
  if (!page) return page.error();
  auto child = sandbox::start_child(kAppDoorLimits,
                                    [&kind](int link) { return sandbox::spawn_child(kind, link); });
  if (!child) return child.error();
  const UniqueFd file = page->take_file();
  const int files[] = {socket, file.get()};
  (void)sandbox::send_packet(child->socket.get(), packet, files);
  return Started{.process = std::move(*child), .page = std::move(*page)};
}

// A child's limit of open files is not above the daemon's.
std::uint32_t room_for_connections() {
  rlimit files{};
  if (::getrlimit(RLIMIT_NOFILE, &files) != 0) return 0;
  return static_cast<std::uint32_t>(
      std::clamp<rlim_t>(files.rlim_max, kOwnDescriptors, kOwnDescriptors + kMaxAppConnections) -
      kOwnDescriptors);
}

Error invalid_change() {
  return fail(ErrorCode::kMalformed, "the door of the apps sent an invalid packet");
}

}  // namespace

Result<AppDoorChild> AppDoorChild::start(int listener) {
  const AppOrderPacket packet{.order = AppOrder::kStart, .connections = room_for_connections()};
  auto started = start_with(kAppDoorChild, sandbox::bytes_of(packet), listener);
  if (!started) return started.error();
  const int socket = started->process.socket.get();
  if (::fcntl(socket, F_SETFL, O_NONBLOCK) != 0) return fail_errno("could not set up a door");
  return AppDoorChild(std::move(started->process.socket), started->process.process,
                      std::move(started->page));
}

Result<std::optional<AppPacket>> AppDoorChild::next_change() {
  // The first packet is the answer to the start of the child, all others are changes.
  std::array<char, std::max(sizeof(AppPacket), sizeof(sandbox::Answer))> bytes{};
  const auto received = sandbox::receive_packet(socket_.get(), bytes);
  if (!received) return received.error();
  if (received->bytes == 0) return fail(ErrorCode::kUnavailable, "the door of the apps died");
  if (!std::exchange(is_started_, true)) {
    sandbox::Answer answer;
    if (received->bytes != sizeof answer) return invalid_change();
    std::copy_n(bytes.begin(), sizeof answer, reinterpret_cast<char*>(&answer));
    if (auto error = sandbox::error_of(answer)) return std::move(*error);
    return std::optional<AppPacket>();
  }
  AppPacket packet;
  if (received->bytes != sizeof packet || !received->descriptors.empty()) return invalid_change();
  std::copy_n(bytes.begin(), sizeof packet, reinterpret_cast<char*>(&packet));
  if (packet.change != AppChange::kConnected && packet.change != AppChange::kDisconnected) {
    return invalid_change();
  }
  return std::optional(packet);
}

bool AppDoorChild::send(const AppOrderPacket& packet, int descriptor) {
  const std::span<const int> descriptors(&descriptor, descriptor >= 0 ? 1 : 0);
  return sandbox::send_packet(socket_.get(), sandbox::bytes_of(packet), descriptors) ||
         errno != EAGAIN;
}

Result<CloserChild> CloserChild::start(int door) {
  auto started = start_with(kCloserChild, sandbox::bytes_of(ClosingPacket{}), door);
  if (!started) return started.error();
  return CloserChild(std::move(started->process.socket), started->process.process,
                     std::move(started->page));
}

}  // namespace profd::door
