#include "collectors/xray/live_region.h"

#include <fcntl.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <tuple>
#include <utility>

namespace profd::xray {
namespace {

constexpr int kSeals = F_SEAL_SHRINK | F_SEAL_GROW | F_SEAL_SEAL;

Error invalid(const char* why) {
  return fail(ErrorCode::kMalformed, std::string("the app's shared memory ") + why);
}

// The app may write at the same time, so each word is read once.
template <class T>
T load(const T& word) {
  return __atomic_load_n(&word, __ATOMIC_ACQUIRE);
}

// Only a memfd has seals, so the calls behind F_GET_SEALS can't hang.
Result<std::uint64_t> sealed_size(int fd) {
  const int seals = ::fcntl(fd, F_GET_SEALS);
  if (seals < 0) return invalid("is not a memfd");
  if ((seals & kSeals) != kSeals) return invalid("is not sealed against a change of its size");
  struct stat status {};
  if (::fstat(fd, &status) != 0) return invalid("can't be examined");
  // Huge pages are in a file system of their own, where a read can fail for want of a page.
  if (status.st_blksize != PROFD_XRAY_PAGE_BYTES) return invalid("has huge pages");
  return static_cast<std::uint64_t>(status.st_size);
}

Result<profd_xray_region> read_header(int fd) {
  profd_xray_region header{};
  if (::pread(fd, &header, sizeof header, 0) != sizeof header) return invalid("is too short");
  if (header.magic != PROFD_XRAY_MAGIC) return invalid("has another version");
  return header;
}

Result<void> check(const profd_xray_region& header, std::uint64_t size) {
  if (header.clock != PROFD_XRAY_CLOCK_TSC && header.clock != PROFD_XRAY_CLOCK_MONOTONIC) {
    return invalid("has an unknown clock");
  }
  if (header.slots == 0 || header.slots > LiveRegion::kMaxSlots || header.slot_bytes == 0 ||
      header.slot_bytes > LiveRegion::kMaxSlotBytes) {
    return invalid("has an invalid number or size of slots");
  }
  if (profd_xray_region_bytes(header.slots, header.slot_bytes) != size) {
    return invalid("does not have the size of its slots");
  }
  return {};
}

std::uint64_t records_in(std::uint64_t buffer_bytes) {
  return (buffer_bytes - std::min<std::uint64_t>(buffer_bytes, LiveRegion::kPreambleBytes)) /
         kFunctionBytes;
}

}  // namespace

void LiveRegion::Unmap::operator()(profd_xray_region* memory) const { ::munmap(memory, bytes); }

Result<LiveRegion> LiveRegion::open(UniqueFd memfd, std::uint32_t session) {
  const auto size = sealed_size(memfd.get());
  if (!size) return size.error();
  const auto header = read_header(memfd.get());
  if (!header) return header.error();
  if (auto fits = check(*header, *size); !fits) return fits.error();
  const std::size_t bytes = profd_xray_buffers_offset(header->slots);
  void* const table = ::mmap(nullptr, bytes, PROT_READ | PROT_WRITE, MAP_SHARED, memfd.get(), 0);
  if (table == MAP_FAILED) return invalid("can't be mapped for reading and writing");
  LiveRegion region(std::move(memfd),
                    {static_cast<profd_xray_region*>(table), Unmap{.bytes = bytes}}, session);
  // The app may have changed the header since, so only the checked copy is used.
  region.slot_count_ = header->slots;
  region.slot_bytes_ = header->slot_bytes;
  region.clock_ = static_cast<profd_xray_clock>(header->clock);
  region.buffer_.resize(header->slot_bytes);
  return region;
}

LiveRegion::LiveRegion(UniqueFd memfd, std::unique_ptr<profd_xray_region, Unmap> table,
                       std::uint32_t session)
    : memfd_(std::move(memfd)), table_(std::move(table)), session_(session) {}

profd_xray_slot* LiveRegion::slots() const {
  return reinterpret_cast<profd_xray_slot*>(table_.get() + 1);
}

std::uint64_t LiveRegion::dropped() const {
  std::uint64_t sum = 0;
  for (const profd_xray_stripe& stripe : table_->stripes) sum += load(stripe.dropped);
  return sum;
}

// Copies the slots of the session, sorted by thread and sequence. A slot whose use changes at the
// same time is left for the next drain().
Result<void> LiveRegion::copy_slots() {
  seen_.clear();
  Result<void> valid;
  for (std::uint32_t i = 0; i < slot_count_; ++i) {
    const profd_xray_slot& slot = slots()[i];
    const std::uint64_t state = load(slot.state);
    if ((state & PROFD_XRAY_STATE_MASK) == PROFD_XRAY_FREE || load(slot.session) != session_) {
      continue;
    }
    // `bytes` is read first: if it is not 0, the other members are of the same use of the slot.
    const std::uint64_t bytes = load(slot.bytes);
    const Seen seen{.thread = load(slot.thread),
                    .sequence = load(slot.sequence),
                    .bytes = bytes,
                    .dropped = load(slot.dropped),
                    .state = state,
                    .slot = i};
    if (bytes == 0 || load(slot.state) != state) continue;
    if (bytes > slot_bytes_) {
      valid = invalid("has a buffer that is longer than its slot");
    } else {
      seen_.push_back(seen);
    }
  }
  std::ranges::sort(seen_, {}, [](const Seen& seen) {
    return std::tuple(seen.thread, seen.sequence, seen.slot);
  });
  return valid;
}

LiveRegion::Thread* LiveRegion::thread_of(std::uint64_t number) {
  const auto known = threads_.find(number);
  if (known != threads_.end()) return &known->second;
  if (threads_.size() >= kMaxThreads) return nullptr;
  const auto next = static_cast<std::int32_t>(threads_.size() + 1);
  return &threads_.emplace(number, Thread{.number = next}).first->second;
}

// A compare-and-swap, since the app may have freed the slot itself, for another session.
void LiveRegion::free_slot(const Seen& seen) {
  profd_xray_slot& slot = slots()[seen.slot];
  std::uint64_t state = seen.state;
  __atomic_store_n(&slot.bytes, 0, __ATOMIC_RELEASE);
  const std::uint64_t free = (state & ~std::uint64_t{PROFD_XRAY_STATE_MASK}) + PROFD_XRAY_ONE_USE;
  __atomic_compare_exchange_n(&slot.state, &state, free, false, __ATOMIC_ACQ_REL, __ATOMIC_RELAXED);
}

Result<std::uint64_t> LiveRegion::read(const Seen& seen, Thread& thread, bool gap,
                                       const Take& take) {
  if (seen.bytes < thread.read) return invalid("has a buffer that became shorter");
  const std::uint64_t bytes = seen.bytes - thread.read;
  const bool begins_buffer = thread.read == 0;
  if (bytes == 0) return 0;
  const std::uint64_t offset =
      profd_xray_buffers_offset(slot_count_) + std::uint64_t{seen.slot} * slot_bytes_ + thread.read;
  const ssize_t got = ::pread(memfd_.get(), buffer_.data(), bytes, static_cast<off_t>(offset));
  if (got != static_cast<ssize_t>(bytes)) return invalid("can't be read");
  thread.read = seen.bytes;
  take({.thread = thread.number,
        .begins_buffer = begins_buffer,
        .lost = begins_buffer ? seen.dropped : 0,
        .gap = gap,
        .bytes = std::string_view(buffer_).substr(0, bytes)});
  return bytes;
}

Result<std::uint64_t> LiveRegion::drain(const Take& take, bool is_last) {
  const Result<void> valid = copy_slots();
  std::uint64_t bytes = 0;
  for (const Seen& seen : seen_) {
    const bool is_full = (seen.state & PROFD_XRAY_STATE_MASK) == PROFD_XRAY_FULL;
    Thread* const thread = thread_of(seen.thread);
    if (thread == nullptr || seen.sequence < thread->sequence) {
      if (thread == nullptr && (is_full || is_last)) refused_records_ += records_in(seen.bytes);
      if (is_full) free_slot(seen);
      continue;
    }
    // The buffer before it was not full when this drain() reached it, so it is read the next time.
    if (seen.sequence != thread->sequence && !is_last) continue;
    const bool gap = seen.sequence != thread->sequence;
    if (gap) *thread = {.number = thread->number, .sequence = seen.sequence};
    const auto read_bytes = read(seen, *thread, gap, take);
    if (!read_bytes) return read_bytes.error();
    bytes += *read_bytes;
    if (!is_full) continue;
    free_slot(seen);
    *thread = {.number = thread->number, .sequence = seen.sequence + 1};
  }
  if (!valid) return valid.error();
  return bytes;
}

}  // namespace profd::xray
