#include "collectors/xray/live_child.h"

#include <algorithm>
#include <array>
#include <utility>
#include <vector>

#include "collectors/sandbox/spawn.h"
#include "collectors/xray/follower.h"

namespace profd::xray {
namespace {

// Of a session's memory, what a result may take; the rest is what the child has to work with.
constexpr std::uint64_t kResultPart = 4;

LiveNews failed(Error error) {
  return {.news = News::kFailed, .end = DetachReason::kFollowerDied, .error = std::move(error)};
}

Error nonsense() {
  return fail(ErrorCode::kMalformed, "the process that followed the app talked nonsense");
}

}  // namespace

Result<LiveChild> LiveChild::start(int program, int connection, std::uint32_t session,
                                   std::string_view pattern, std::uint64_t memory_bytes) {
  if (auto fits = check_pattern(pattern); !fits) return fits.error();
  const std::uint64_t result_bytes = memory_bytes / kResultPart;
  const std::uint64_t work_bytes = memory_bytes - result_bytes;
  auto child =
      sandbox::start_child({.memory_bytes = work_bytes, .file_bytes = result_bytes},
                           [](int socket) { return sandbox::spawn_child(kFollowerChild, socket); });
  if (!child) return child.error();
  OrderPacket order{.order = Order::kFollow,
                    .session = session,
                    .pattern_bytes = static_cast<std::uint32_t>(pattern.size()),
                    .memory_bytes = work_bytes};
  std::ranges::copy(pattern, order.pattern.begin());
  const int files[] = {program, connection};
  // Where this fails, the child has ended already: its first packet, or the end of them, says so.
  (void)sandbox::send_packet(child->socket.get(), sandbox::bytes_of(order), files);
  return LiveChild(std::move(child->socket), child->process);
}

bool LiveChild::order(Order order) {
  const OrderPacket packet{.order = order};
  return sandbox::send_packet(socket_.get(), sandbox::bytes_of(packet));
}

std::optional<LiveNews> LiveChild::next_news() {
  // Of both kinds of packets, the answer to the first request comes first and once.
  std::array<char, std::max(sizeof(NewsPacket), sizeof(sandbox::Answer))> bytes{};
  auto received = sandbox::receive_packet(socket_.get(), bytes);
  if (!received) return failed(nonsense());
  if (received->bytes == 0) {
    return failed(fail(ErrorCode::kUnavailable, "the process that followed the app died"));
  }
  if (!std::exchange(is_started_, true)) {
    sandbox::Answer answer;
    if (received->bytes != sizeof answer) return failed(nonsense());
    std::copy_n(bytes.begin(), sizeof answer, reinterpret_cast<char*>(&answer));
    if (auto error = sandbox::error_of(answer)) return failed(std::move(*error));
    return std::nullopt;
  }
  NewsPacket packet;
  if (received->bytes != sizeof packet) return failed(nonsense());
  std::copy_n(bytes.begin(), sizeof packet, reinterpret_cast<char*>(&packet));
  LiveNews news{.news = packet.news,
                .functions = packet.functions,
                .patched = packet.patched,
                .records = packet.records,
                .dropped = packet.dropped,
                .end = packet.end};
  if (packet.news == News::kFailed || packet.news == News::kAppIsOut) {
    auto error = sandbox::error_of(packet.error);
    news.error = error ? std::move(*error) : nonsense();
  }
  if (packet.news == News::kResult) {
    if (received->descriptors.size() != 1) return failed(nonsense());
    news.result = std::move(received->descriptors[0]);
  }
  return news;
}

}  // namespace profd::xray
