#include "collectors/bpf/ring_reader.h"

#include <bpf/libbpf.h>

namespace profd {
namespace {

// libbpf is C: nothing may be thrown through it.
int hand_over(void* context, void* data, std::size_t size) noexcept {
  static_cast<RingReader::Handler*>(context)->on_record(
      {static_cast<const std::byte*>(data), size});
  return 0;
}

}  // namespace

void RingReader::Close::operator()(ring_buffer* rings) const noexcept { ring_buffer__free(rings); }

Result<RingReader> RingReader::open(const std::vector<UniqueFd>& rings, Handler& handler) {
  RingReader reader(ring_buffer__new(rings.front().get(), hand_over, &handler, nullptr));
  if (!reader.rings_) return fail_errno("map a ring buffer");
  for (std::size_t i = 1; i < rings.size(); ++i) {
    if (ring_buffer__add(reader.rings_.get(), rings[i].get(), hand_over, &handler) != 0) {
      return fail_errno("map a ring buffer");
    }
  }
  return reader;
}

void RingReader::drain() { ring_buffer__consume(rings_.get()); }

int RingReader::wake_fd() const { return ring_buffer__epoll_fd(rings_.get()); }

}  // namespace profd
