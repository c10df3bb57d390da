// One direction of a client's connection through the door: copies bytes from one stream socket to
// another.
//
// Never waits, and holds at most kMaxPendingBytes that the receiver has no room for; until they are
// sent, nothing more is read. recv() has no room for control messages, so the kernel closes the
// descriptors that a client sends. That may take as long as the client likes.

#pragma once

#include <cstddef>
#include <string>

namespace profd::door {

class OneWay {
 public:
  static constexpr std::size_t kMaxPendingBytes = std::size_t{16} << 10;

  // Both stay the caller's, and must be open at each run().
  OneWay(int from, int to) : from_(from), to_(to) {}

  // Copies what can be copied now, up to some rounds.
  void run();

  [[nodiscard]] bool wants_to_read() const { return !at_end_ && pending_.empty(); }
  [[nodiscard]] bool wants_to_write() const { return !pending_.empty(); }
  // All that the sender sent is copied, and it sends no more; or the receiver is broken.
  [[nodiscard]] bool has_ended() const { return at_end_ && pending_.empty(); }
  [[nodiscard]] bool is_broken() const { return is_broken_; }  // the receiver reads no more

 private:
  // False when the receiver has no room or is broken.
  bool send_pending();

  int from_;
  int to_;
  std::string pending_;
  bool at_end_ = false;
  bool is_broken_ = false;
};

}  // namespace profd::door
