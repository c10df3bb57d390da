// The user end of the ring buffers: all of them behind one descriptor to wait on.

#pragma once

#include <cstddef>
#include <memory>
#include <span>
#include <vector>

#include "formats/base/result.h"
#include "formats/base/unique_fd.h"

struct ring_buffer;

namespace profd {

class RingReader {
 public:
  // Called for each record; the bytes are valid during the call.
  class Handler {
   public:
    Handler() = default;
    Handler(const Handler&) = delete;
    Handler& operator=(const Handler&) = delete;
    virtual ~Handler() = default;
    virtual void on_record(std::span<const std::byte> bytes) noexcept = 0;
  };

  // The handler must outlive the reader.
  static Result<RingReader> open(const std::vector<UniqueFd>& rings, Handler& handler);

  // Hands over every record that is there.
  void drain();

  // Readable after a wake-up of the kernel side, until drained.
  [[nodiscard]] int wake_fd() const;

 private:
  struct Close {
    void operator()(ring_buffer* rings) const noexcept;
  };
  explicit RingReader(ring_buffer* rings) : rings_(rings) {}

  std::unique_ptr<ring_buffer, Close> rings_;
};

}  // namespace profd
