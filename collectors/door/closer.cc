#include "collectors/door/closer.h"

#include <cstdint>
#include <utility>
#include <vector>

#include "collectors/door/app_door.h"
#include "collectors/door/app_packets.h"
#include "collectors/door/page.h"
#include "formats/base/unique_fd.h"

namespace profd::door {
namespace {

constexpr std::uint64_t kCloserFiles = kMaxKept + kOwnDescriptors;

// Returns when the door has ended.
void close_for_door(int door, DoorPage& page) {
  std::vector<UniqueFd> kept;
  for (;;) {
    ClosingPacket packet;
    auto received = sandbox::receive_packet(door, sandbox::buffer_of(packet));
    if (!received || received->bytes != sizeof packet) return;
    if (packet.step == ClosingStep::kClose) {
      page.set_busy();
      kept.clear();
      page.set_idle();
    } else if (received->descriptors.size() == 1 && kept.size() < kMaxKept) {
      kept.push_back(std::move(received->descriptors[0]));
      if (!sandbox::send_packet(door, sandbox::bytes_of(packet))) return;
    } else {
      return;
    }
  }
}

void serve_closer(int daemon) {
  ClosingPacket start;
  const auto received = sandbox::receive_packet(daemon, sandbox::buffer_of(start));
  if (!received || received->bytes != sizeof start || received->descriptors.size() != 2) return;
  DoorPage* const page = map_page(received->descriptors[1].get());
  if (page != nullptr) close_for_door(received->descriptors[0].get(), *page);
}

}  // namespace

const sandbox::ChildKind kCloserChild{.name = "closer",
                                      .process_name = "profd-closer",
                                      .run = &serve_closer,
                                      .rules = {.open_files = kCloserFiles}};

}  // namespace profd::door
