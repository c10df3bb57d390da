#include "collectors/door/door_child.h"

#include <sys/socket.h>
#include <sys/wait.h>

#include <algorithm>
#include <array>
#include <utility>

#include "collectors/door/door.h"
#include "collectors/door/packets.h"
#include "collectors/sandbox/packets.h"
#include "collectors/sandbox/spawn.h"

namespace profd::door {
namespace {

// For the bytes of clients that do not read, each way.
constexpr std::uint64_t kMemoryBytes = std::uint64_t{64} << 20;
constexpr std::uint64_t kFileBytes = 4096;

Error invalid_packet() { return fail(ErrorCode::kMalformed, "the door sent an invalid packet"); }

bool is_stream(int fd) {
  int type = 0;
  int domain = 0;
  socklen_t size = sizeof type;
  return ::getsockopt(fd, SOL_SOCKET, SO_TYPE, &type, &size) == 0 && type == SOCK_STREAM &&
         ::getsockopt(fd, SOL_SOCKET, SO_DOMAIN, &domain, &size) == 0 && domain == AF_UNIX;
}

}  // namespace

Result<DoorChild> DoorChild::start(int listener, std::optional<gid_t> group) {
  auto page = WatchedPage::make();
  if (!page) return page.error();
  auto child =
      sandbox::start_child({.memory_bytes = kMemoryBytes, .file_bytes = kFileBytes},
                           [](int socket) { return sandbox::spawn_child(kDoorChild, socket); });
  if (!child) return child.error();
  const StartPacket packet{.group = group.value_or(0), .has_group = group ? 1U : 0U};
  const UniqueFd file = page->take_file();
  const int files[] = {listener, file.get()};
  // If this fails, the child has ended already, and next_client() returns so.
  (void)sandbox::send_packet(child->socket.get(), sandbox::bytes_of(packet), files);
  return DoorChild(std::move(child->socket), child->process, std::move(*page));
}

Result<std::optional<DoorClient>> DoorChild::next_client() {
  // The first packet is the answer to the start of the child, all others are clients.
  std::array<char, std::max(sizeof(ClientPacket), sizeof(sandbox::Answer))> bytes{};
  auto received = sandbox::receive_packet(socket_.get(), bytes);
  if (!received) return received.error();
  if (received->bytes == 0) return fail(ErrorCode::kUnavailable, "the door died");
  if (!std::exchange(is_started_, true)) {
    sandbox::Answer answer;
    if (received->bytes != sizeof answer) return invalid_packet();
    std::copy_n(bytes.begin(), sizeof answer, reinterpret_cast<char*>(&answer));
    if (auto error = sandbox::error_of(answer)) return std::move(*error);
    return std::optional<DoorClient>();
  }
  ClientPacket packet;
  auto& sockets = received->descriptors;
  if (received->bytes != sizeof packet || sockets.size() > 1 ||
      (!sockets.empty() && !is_stream(sockets[0].get()))) {
    return invalid_packet();
  }
  std::copy_n(bytes.begin(), sizeof packet, reinterpret_cast<char*>(&packet));
  return std::optional(DoorClient{.peer = {.uid = packet.uid,
                                           .gid = packet.gid,
                                           .pid = packet.pid,
                                           .is_in_group = packet.is_in_group == 1},
                                  .socket = sockets.empty() ? UniqueFd() : std::move(sockets[0])});
}

void DoorChild::stop_accepting() {
  (void)sandbox::send_packet(socket_.get(), sandbox::bytes_of(StartPacket{}));
}

void DoorChild::finish() { ::shutdown(socket_.get(), SHUT_WR); }

bool DoorChild::has_ended() const {
  siginfo_t ended{};
  const int options = WEXITED | WNOHANG | WNOWAIT;
  return ::waitid(P_PID, static_cast<id_t>(process_), &ended, options) != 0 || ended.si_pid != 0;
}

}  // namespace profd::door
