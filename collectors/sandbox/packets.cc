#include "collectors/sandbox/packets.h"

#include <fcntl.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/uio.h>

#include <algorithm>
#include <cerrno>
#include <cstring>

#include "formats/base/whole_file.h"
#include "formats/elf/elf_tables.h"

namespace profd::sandbox {
namespace {

constexpr int kSeals = F_SEAL_SEAL | F_SEAL_SHRINK | F_SEAL_GROW | F_SEAL_WRITE;

// Room for the descriptors of one packet, with the alignment that the kernel requires.
union Control {
  cmsghdr header;
  std::array<char, CMSG_SPACE(kMaxDescriptors * sizeof(int))> bytes;
};

std::vector<UniqueFd> descriptors_in(msghdr& message) {
  std::vector<UniqueFd> found;
  for (cmsghdr* part = CMSG_FIRSTHDR(&message); part != nullptr;
       part = CMSG_NXTHDR(&message, part)) {
    if (part->cmsg_level != SOL_SOCKET || part->cmsg_type != SCM_RIGHTS) continue;
    const std::size_t count = (part->cmsg_len - CMSG_LEN(0)) / sizeof(int);
    for (std::size_t i = 0; i < count; ++i) {
      int fd = -1;
      std::memcpy(&fd, CMSG_DATA(part) + i * sizeof(int), sizeof(int));
      found.emplace_back(fd);
    }
  }
  return found;
}

}  // namespace

Answer answer_of(const Error& error) {
  Answer answer;
  answer.status = 1 + static_cast<std::uint32_t>(error.code);
  const std::size_t message = std::min(error.message.size(), kMaxTextBytes);
  const std::size_t hint = std::min(error.hint.size(), kMaxTextBytes - message);
  std::copy_n(error.hint.begin(), hint,
              std::copy_n(error.message.begin(), message, answer.text.begin()));
  answer.text_bytes = static_cast<std::uint32_t>(message + hint);
  answer.hint_bytes = static_cast<std::uint32_t>(hint);
  return answer;
}

std::optional<Error> error_of(const Answer& answer) {
  if (answer.status == 0 || answer.text_bytes > kMaxTextBytes ||
      answer.hint_bytes > answer.text_bytes ||
      answer.status > 1 + static_cast<std::uint32_t>(ErrorCode::kInternal)) {
    return std::nullopt;
  }
  const std::size_t message = answer.text_bytes - answer.hint_bytes;
  return fail(static_cast<ErrorCode>(answer.status - 1), std::string(answer.text.data(), message),
              std::string(answer.text.data() + message, answer.hint_bytes));
}

bool send_packet(int socket, std::string_view bytes, std::span<const int> descriptors) {
  Control control{};
  iovec part{.iov_base = const_cast<char*>(bytes.data()), .iov_len = bytes.size()};
  msghdr message{};
  message.msg_iov = &part;
  message.msg_iovlen = 1;
  if (!descriptors.empty()) {
    message.msg_control = control.bytes.data();
    message.msg_controllen = CMSG_SPACE(descriptors.size_bytes());
    cmsghdr* header = CMSG_FIRSTHDR(&message);
    header->cmsg_level = SOL_SOCKET;
    header->cmsg_type = SCM_RIGHTS;
    header->cmsg_len = CMSG_LEN(descriptors.size_bytes());
    std::memcpy(CMSG_DATA(header), descriptors.data(), descriptors.size_bytes());
  }
  ssize_t sent = 0;
  do {
    sent = ::sendmsg(socket, &message, MSG_NOSIGNAL);
  } while (sent < 0 && errno == EINTR);
  return sent == static_cast<ssize_t>(bytes.size());
}

Result<Received> receive_packet(int socket, std::span<char> into) {
  Control control{};
  iovec part{.iov_base = into.data(), .iov_len = into.size()};
  msghdr message{};
  message.msg_iov = &part;
  message.msg_iovlen = 1;
  message.msg_control = control.bytes.data();
  message.msg_controllen = control.bytes.size();
  ssize_t got = 0;
  do {
    got = ::recvmsg(socket, &message, MSG_CMSG_CLOEXEC);
  } while (got < 0 && errno == EINTR);
  if (got < 0 && errno != ECONNRESET) return fail_errno("could not receive a packet");
  Received received{.bytes = static_cast<std::size_t>(std::max<ssize_t>(got, 0)),
                    .descriptors = descriptors_in(message)};
  if ((message.msg_flags & (MSG_TRUNC | MSG_CTRUNC)) != 0) {
    return fail(ErrorCode::kMalformed, "a packet is longer than its type");
  }
  return received;
}

Result<UniqueFd> make_sealed(std::string_view bytes) {
  UniqueFd fd(::memfd_create("profd", MFD_CLOEXEC | MFD_ALLOW_SEALING));
  if (!fd.valid()) return fail_errno("could not create a memfd");
  if (!write_all(fd.get(), bytes)) {
    if (errno == EFBIG) return fail(ErrorCode::kTooLarge, "the result is over the size limit");
    return fail_errno("could not write a memfd");
  }
  if (::fcntl(fd.get(), F_ADD_SEALS, kSeals) != 0) return fail_errno("could not seal a memfd");
  return fd;
}

Result<std::string> read_sealed(int fd, std::uint64_t max_bytes) {
  // Only files in memory have seals, so no read below can hang.
  const int seals = ::fcntl(fd, F_GET_SEALS);
  struct stat status {};
  if (seals < 0 || (seals & kSeals) != kSeals || ::fstat(fd, &status) != 0 || status.st_size < 0) {
    return fail(ErrorCode::kMalformed, "the descriptor is no sealed memfd");
  }
  const auto size = static_cast<std::uint64_t>(status.st_size);
  if (size > max_bytes) {
    return fail(ErrorCode::kTooLarge, "the sealed memfd is over the size limit");
  }
  std::string bytes(size, '\0');
  if (!elf::read_at(fd, 0, bytes.data(), size)) return fail_errno("could not read a memfd");
  return bytes;
}

}  // namespace profd::sandbox
