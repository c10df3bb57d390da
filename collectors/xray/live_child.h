// The daemon's end of the process that follows an app (follower.h): starts it, gives it orders,
// takes its news. Nothing waits: the descriptor is readable when there is news.
//
// On the io thread.

#pragma once

#include <sys/types.h>

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

#include "collectors/xray/live_packets.h"
#include "formats/base/result.h"
#include "formats/base/unique_fd.h"

namespace profd::xray {

struct LiveNews {
  News news{};
  std::uint32_t functions = 0;
  std::uint32_t patched = 0;
  std::uint64_t records = 0;
  std::uint64_t dropped = 0;
  DetachReason end{};
  Error error{};      // kFailed, kAppIsOut
  UniqueFd result{};  // kResult: to be read by read_live_result(), on the worker
};

class LiveChild {
 public:
  // `program` and `connection` are borrowed: the child gets its own. `pattern` as for
  // choose_functions(); empty: all. `memory_bytes` is all that the child and a result take, beyond
  // what the program itself does.
  static Result<LiveChild> start(int program, int connection, std::uint32_t session,
                                 std::string_view pattern, std::uint64_t memory_bytes);

  LiveChild(LiveChild&&) noexcept = default;
  LiveChild& operator=(LiveChild&&) = delete;

  // False: it is gone, which its next news will say.
  bool order(Order order);

  // When the descriptor is readable. Nothing: that was no news. kFailed also where the child died
  // or talks nonsense.
  std::optional<LiveNews> next_news();

  [[nodiscard]] int descriptor() const { return socket_.get(); }
  [[nodiscard]] pid_t process() const { return process_; }

 private:
  LiveChild(UniqueFd socket, pid_t process) : socket_(std::move(socket)), process_(process) {}

  UniqueFd socket_;
  pid_t process_;
  bool is_started_ = false;
};

}  // namespace profd::xray
