// An instrumented program that answers profd wrongly: hostile WAY. It says "ready" when it is
// connected.

#include <fcntl.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>

#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <string>
#include <vector>

#include "collectors/xray/app/wire.h"

extern "C" std::size_t __xray_max_function_id();
extern "C" std::uintptr_t __xray_function_address(std::int32_t function);

__attribute__((noinline)) void instrumented() { std::puts("called"); }

namespace {

constexpr int kAllSeals = F_SEAL_SHRINK | F_SEAL_GROW | F_SEAL_SEAL;

int connect_to_profd() {
  sockaddr_un address{};
  address.sun_family = AF_UNIX;
  std::strcpy(address.sun_path, std::getenv("PROFD_XRAY_SOCKET"));
  const int fd = ::socket(AF_UNIX, SOCK_SEQPACKET, 0);
  while (::connect(fd, reinterpret_cast<sockaddr*>(&address), sizeof address) != 0)
    ::usleep(10'000);
  return fd;
}

void send_with(int socket, const void* bytes, std::size_t size,
               const std::vector<int>& descriptors) {
  iovec part{.iov_base = const_cast<void*>(bytes), .iov_len = size};
  alignas(cmsghdr) char control[CMSG_SPACE(64 * sizeof(int))] = {};
  msghdr message{};
  message.msg_iov = &part;
  message.msg_iovlen = 1;
  if (!descriptors.empty()) {
    const std::size_t bytes_of_all = descriptors.size() * sizeof(int);
    message.msg_control = control;
    message.msg_controllen = CMSG_SPACE(bytes_of_all);
    cmsghdr* const header = CMSG_FIRSTHDR(&message);
    header->cmsg_level = SOL_SOCKET;
    header->cmsg_type = SCM_RIGHTS;
    header->cmsg_len = CMSG_LEN(bytes_of_all);
    std::memcpy(CMSG_DATA(header), descriptors.data(), bytes_of_all);
  }
  ::sendmsg(socket, &message, MSG_NOSIGNAL);
}

struct Memory {
  int fd = -1;
  unsigned char* bytes = nullptr;
  std::size_t size = 0;
};

Memory make_memory(int seals, unsigned flags = 0) {
  Memory memory;
  memory.size = profd_xray_region_bytes(PROFD_XRAY_SLOTS, PROFD_XRAY_SLOT_BYTES);
  memory.fd = ::memfd_create("hostile", MFD_ALLOW_SEALING | flags);
  if (::ftruncate(memory.fd, static_cast<off_t>(memory.size)) != 0) return memory;
  ::fcntl(memory.fd, F_ADD_SEALS, seals);
  memory.bytes = static_cast<unsigned char*>(
      ::mmap(nullptr, memory.size, PROT_READ | PROT_WRITE, MAP_SHARED, memory.fd, 0));
  auto* const header = reinterpret_cast<profd_xray_region*>(memory.bytes);
  header->magic = PROFD_XRAY_MAGIC;
  header->clock = PROFD_XRAY_CLOCK_TSC;
  header->slots = PROFD_XRAY_SLOTS;
  header->slot_bytes = PROFD_XRAY_SLOT_BYTES;
  return memory;
}

profd_xray_answer ready(std::uint32_t session) {
  return {.kind = PROFD_XRAY_READY,
          .session = session,
          .value = 0,
          .function = static_cast<std::uint32_t>(__xray_max_function_id()),
          .first_function = __xray_function_address(1)};
}

profd_xray_slot* slots_of(const Memory& memory) {
  return reinterpret_cast<profd_xray_slot*>(memory.bytes + sizeof(profd_xray_region));
}

// Every word of the table and of the buffers, as fast as can be, until killed.
[[noreturn]] void scribble(const Memory& memory, std::uint32_t session) {
  for (std::uint64_t i = 0;; ++i) {
    profd_xray_slot& slot = slots_of(memory)[i % PROFD_XRAY_SLOTS];
    slot.session = session;
    slot.thread = i * 0x9e3779b97f4a7c15;
    slot.sequence = i % 3;
    slot.bytes = i % PROFD_XRAY_SLOT_BYTES;
    slot.state = PROFD_XRAY_FULL + PROFD_XRAY_ONE_USE * i;
    memory.bytes[profd_xray_buffers_offset(PROFD_XRAY_SLOTS) + i % (1 << 20)] =
        static_cast<unsigned char>(i * 31);
  }
}

void put(unsigned char*& to, const void* bytes, std::size_t size) {
  std::memcpy(to, bytes, size);
  to += size;
}

void put_metadata(unsigned char*& to, unsigned kind, std::uint64_t first, std::uint64_t second) {
  unsigned char record[16] = {static_cast<unsigned char>(kind << 1 | 1)};
  std::memcpy(record + 1, &first, sizeof first);
  std::memcpy(record + 9, &second, 7);
  put(to, record, sizeof record);
}

unsigned char* buffer_of(const Memory& memory, std::uint64_t slot) {
  return memory.bytes + profd_xray_buffers_offset(PROFD_XRAY_SLOTS) + slot * PROFD_XRAY_SLOT_BYTES;
}

void put_call(unsigned char*& to, bool is_exit, std::uint64_t function) {
  const std::uint64_t record =
      std::uint64_t{100} << 32 | function << 4 | std::uint64_t{is_exit} << 1;
  put(to, &record, sizeof record);
}

void put_preamble(unsigned char*& end) {
  put_metadata(end, 0, 1, 0);              // NEW_BUFFER
  put_metadata(end, 4, 1, 0);              // WALL_CLOCK
  put_metadata(end, 9, 1, 0);              // PID
  put_metadata(end, 2, 1000ULL << 16, 0);  // NEW_CPU
}

// As an honest app would: 100 calls of function 1 by thread 1.
void write_calls(const Memory& memory, std::uint32_t session) {
  unsigned char* const buffer = buffer_of(memory, 0);
  unsigned char* end = buffer;
  put_preamble(end);
  for (int i = 0; i < 200; ++i) put_call(end, i % 2 == 1, 1);
  profd_xray_slot& slot = slots_of(memory)[0];
  slot.session = session;
  slot.thread = 1;
  slot.state = PROFD_XRAY_LIVE;
  __atomic_store_n(&slot.bytes, static_cast<std::uint64_t>(end - buffer), __ATOMIC_RELEASE);
}

// A buffer of one thread after the other, of calls that are hardly ever called from the same place.
void write_new_stacks(const Memory& memory, std::uint32_t session, std::uint64_t sequence) {
  static std::uint64_t random = 1;
  const std::uint64_t slot = sequence % PROFD_XRAY_SLOTS;
  profd_xray_slot& taken = slots_of(memory)[slot];
  if ((__atomic_load_n(&taken.state, __ATOMIC_ACQUIRE) & PROFD_XRAY_STATE_MASK) != 0) return;
  unsigned char* const buffer = buffer_of(memory, slot);
  unsigned char* end = buffer;
  put_preamble(end);
  while (end < buffer + PROFD_XRAY_SLOT_BYTES - 8) {
    random = random * 6364136223846793005 + 1442695040888963407;
    put_call(end, random >> 61 < 3, 1 + (random >> 33) % 1000);
  }
  taken.session = session;
  taken.thread = sequence % 50;
  taken.sequence = sequence / 50;
  __atomic_store_n(&taken.bytes, static_cast<std::uint64_t>(end - buffer), __ATOMIC_RELEASE);
  __atomic_store_n(&taken.state, taken.state | PROFD_XRAY_FULL, __ATOMIC_RELEASE);
}

void send_answer(int socket, std::uint32_t session, std::uint32_t kind, std::uint32_t value) {
  const profd_xray_answer answer = {
      .kind = kind, .session = session, .value = value, .function = 0, .first_function = 0};
  send_with(socket, &answer, sizeof answer, {});
}

// The ways that begin like an honest app: the calls are there when the trouble starts.
void go_wrong_later(const std::string& way, int socket, std::uint32_t session,
                    const Memory& memory) {
  if (way == "claims-too-much") return send_answer(socket, session, PROFD_XRAY_PATCHED, ~0U);
  write_calls(memory, session);
  send_answer(socket, session, PROFD_XRAY_PATCHED, 1);
  if (way == "late-growth") {
    for (std::uint64_t i = 50; i < 250; ++i) write_new_stacks(memory, session, i);
    send_answer(socket, session ^ 1, PROFD_XRAY_PATCHED, 0);
    return;
  }
  if (way == "late-garbage") return send_with(socket, "garbage", 7, {});
  if (way == "late-unasked") return send_answer(socket, session, PROFD_XRAY_PATCHED, 0);
  if (way == "late-ended") return send_answer(socket, session, PROFD_XRAY_ENDED, 0);
  if (way == "late-descriptors") {
    const profd_xray_answer ended = {.kind = PROFD_XRAY_ENDED,
                                     .session = session,
                                     .value = 0,
                                     .function = 0,
                                     .first_function = 0};
    return send_with(socket, &ended, sizeof ended, std::vector<int>(2, memory.fd));
  }
  if (way == "late-flood") {
    for (int i = 0; i < 1 << 20; ++i) send_answer(socket, session ^ 1, PROFD_XRAY_PATCHED, 0);
  }
  if (way == "late-memory") {
    slots_of(memory)[1].session = session;
    slots_of(memory)[1].state = PROFD_XRAY_FULL;
    __atomic_store_n(&slots_of(memory)[1].bytes, std::uint64_t{1} << 60, __ATOMIC_RELEASE);
  }
  if (way == "late-hang-up") ::close(socket);
}

Memory shared;

void answer(const std::string& way, int socket, std::uint32_t session) {
  const profd_xray_answer honest = ready(session);
  if (way == "garbage") return send_with(socket, "garbage", 7, {});
  if (way == "long") return send_with(socket, std::string(4096, 'x').data(), 4096, {});
  if (way == "silence") return;
  if (way == "hang-up") return static_cast<void>(::close(socket));
  if (way == "no-memory-sent") return send_with(socket, &honest, sizeof honest, {});
  if (way == "many-descriptors") {
    return send_with(socket, &honest, sizeof honest,
                     std::vector<int>(60, make_memory(kAllSeals).fd));
  }
  if (way == "device")
    return send_with(socket, &honest, sizeof honest, std::vector<int>{::open("/dev/zero", O_RDWR)});
  if (way == "unsealed")
    return send_with(socket, &honest, sizeof honest, std::vector<int>{make_memory(0).fd});
  const Memory memory = make_memory(kAllSeals);
  shared = memory;
  profd_xray_answer lie = honest;
  if (way == "other-functions") lie.function += 1;
  if (way == "elsewhere") lie.first_function += 123;
  if (way == "long-buffer") {
    profd_xray_slot& slot = slots_of(memory)[0];
    slot.session = session;
    slot.state = PROFD_XRAY_FULL;
    slot.bytes = std::uint64_t{1} << 60;
  }
  send_with(socket, &lie, sizeof lie, std::vector<int>{memory.fd});
  if (way == "scribbles") send_answer(socket, session, PROFD_XRAY_PATCHED, 1);
  if (way == "scribbles") scribble(memory, session);
  if (way == "floods") {
    for (;;) send_with(socket, &lie, sizeof lie, {memory.fd, memory.fd});
  }
}

}  // namespace

[[clang::xray_never_instrument]] int main(int, char** argv) {
  const std::string way = argv[1];
  const int socket = connect_to_profd();
  if (way == "talks-first") send_with(socket, "hello", 5, {0, 1, 2});
  std::puts("ready");
  std::fflush(stdout);
  const bool goes_wrong_later = way.starts_with("late-") || way == "claims-too-much";
  profd_xray_command command{};
  while (::recv(socket, &command, sizeof command, 0) > 0) {
    if (command.kind == PROFD_XRAY_BEGIN) answer(way, socket, command.session);
    if (command.kind == PROFD_XRAY_END && way == "late-growth") {
      send_answer(socket, command.session, PROFD_XRAY_ENDED, 0);
    }
    if (command.kind == PROFD_XRAY_PATCH && goes_wrong_later) {
      go_wrong_later(way, socket, command.session, shared);
    }
  }
  if (std::getchar() == 'x') instrumented();
  return 0;
}
