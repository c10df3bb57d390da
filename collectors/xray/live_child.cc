#include "collectors/xray/live_child.h"

#include <sys/socket.h>

#include <algorithm>
#include <array>
#include <utility>
#include <vector>

#include "collectors/parser/client.h"

namespace profd::xray {
namespace {

// Of a session's memory, what a result may take; the rest is what the child has to work with.
constexpr std::uint64_t kResultPart = 4;

template <class Packet>
std::string_view bytes_of(const Packet& packet) {
  return {reinterpret_cast<const char*>(&packet), sizeof packet};
}

// Orders are given before the child is there: they wait in the socket.
bool send_first_orders(int socket, int program, int connection, std::uint32_t session,
                       std::string_view pattern, std::uint64_t memory_bytes) {
  const std::uint64_t result_bytes = memory_bytes / kResultPart;
  const std::uint64_t work_bytes = memory_bytes - result_bytes;
  const parser::Request limits{.operation = parser::Operation::kStart,
                               .words = {work_bytes, result_bytes}};
  const parser::Request follow{.operation = parser::Operation::kFollowXray};
  OrderPacket order{.order = Order::kFollow,
                    .session = session,
                    .pattern_bytes = static_cast<std::uint32_t>(pattern.size()),
                    .memory_bytes = work_bytes};
  std::ranges::copy(pattern, order.pattern.begin());
  const std::array<int, 2> files = {program, connection};
  return parser::send_packet(socket, bytes_of(limits), {}) &&
         parser::send_packet(socket, bytes_of(follow), files) &&
         parser::send_packet(socket, bytes_of(order), {});
}

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
  int ends[2];
  if (::socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, ends) != 0) {
    return fail_errno("could not make a socket pair");
  }
  UniqueFd ours(ends[0]);
  const UniqueFd theirs(ends[1]);
  if (!send_first_orders(ours.get(), program, connection, session, pattern, memory_bytes)) {
    return fail_errno("could not give the first orders");
  }
  const auto process = parser::spawn_this_program(theirs.get());
  if (!process) return process.error();
  return LiveChild(std::move(ours), *process);
}

bool LiveChild::order(Order order) {
  const OrderPacket packet{.order = order};
  return parser::send_packet(socket_.get(), bytes_of(packet), {});
}

std::optional<LiveNews> LiveChild::next_news() {
  // Of both kinds of packets, the answer to the first request comes first and once.
  std::array<char, std::max(sizeof(NewsPacket), sizeof(parser::Answer))> bytes{};
  auto received = parser::receive_packet(socket_.get(), bytes);
  if (!received) return failed(nonsense());
  if (received->bytes == 0) {
    return failed(fail(ErrorCode::kUnavailable, "the process that followed the app died"));
  }
  if (!std::exchange(is_started_, true)) {
    parser::Answer answer;
    if (received->bytes != sizeof answer) return failed(nonsense());
    std::copy_n(bytes.begin(), sizeof answer, reinterpret_cast<char*>(&answer));
    if (auto error = parser::error_of(answer)) return failed(std::move(*error));
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
    auto error = parser::error_of(packet.error);
    news.error = error ? std::move(*error) : nonsense();
  }
  if (packet.news == News::kResult) {
    if (received->descriptors.size() != 1) return failed(nonsense());
    news.result = std::move(received->descriptors[0]);
  }
  return news;
}

}  // namespace profd::xray
