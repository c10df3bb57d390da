#include "tests/collectors/silent_fuse.h"

#include <fcntl.h>
#include <linux/fuse.h>
#include <poll.h>
#include <sys/mount.h>
#include <sys/stat.h>
#include <unistd.h>

#include <array>
#include <cstring>

namespace profd::test {
namespace {

constexpr std::uint64_t kFileNode = 2;
constexpr std::uint64_t kFileBytes = 8192;
constexpr std::uint64_t kValidSeconds = 0;  // so that the kernel asks each time

fuse_attr attributes_of(std::uint64_t node) {
  fuse_attr attributes{};
  attributes.ino = node;
  attributes.mode = node == kFileNode ? S_IFREG | 0755 : S_IFDIR | 0755;
  attributes.size = node == kFileNode ? kFileBytes : 0;
  attributes.nlink = 1;
  attributes.blksize = 4096;
  return attributes;
}

}  // namespace

SilentFuse::SilentFuse(const std::string& directory, uid_t user)
    : directory_(directory), device_(::open("/dev/fuse", O_RDWR | O_CLOEXEC)) {
  const std::string options = "fd=" + std::to_string(device_.get()) +
                              ",rootmode=40755,user_id=" + std::to_string(user) +
                              ",group_id=0,allow_other";
  mounted_ =
      ::mount("profd-test", directory_.c_str(), "fuse", MS_NOSUID | MS_NODEV, options.c_str()) == 0;
  server_ = std::thread([this] { serve(); });
}

SilentFuse::~SilentFuse() {
  over_ = true;
  server_.join();
  device_.reset();
  if (mounted_) ::umount2(directory_.c_str(), MNT_DETACH);
}

void SilentFuse::serve() {
  std::array<char, 1 << 17> request;
  while (!over_) {
    pollfd ready{.fd = device_.get(), .events = POLLIN, .revents = 0};
    if (::poll(&ready, 1, 20) <= 0) continue;
    if (::read(device_.get(), request.data(), request.size()) < ssize_t{sizeof(fuse_in_header)}) {
      continue;
    }
    fuse_in_header header;
    std::memcpy(&header, request.data(), sizeof header);
    if (!silent_) answer(header.opcode, header.unique);
  }
}

template <class T>
void SilentFuse::reply(std::uint64_t id, const T& body) {
  struct {
    fuse_out_header header;
    T body;
  } packet{};
  packet.header.len = sizeof packet;
  packet.header.unique = id;
  packet.body = body;
  (void)!::write(device_.get(), &packet, sizeof packet);
}

void SilentFuse::answer(std::uint32_t operation, std::uint64_t id) {
  switch (operation) {
    case FUSE_INIT: {
      fuse_init_out init{};
      init.major = FUSE_KERNEL_VERSION;
      init.minor = FUSE_KERNEL_MINOR_VERSION;
      init.max_write = 4096;
      return reply(id, init);
    }
    case FUSE_LOOKUP: {
      fuse_entry_out entry{};
      entry.nodeid = kFileNode;
      entry.attr = attributes_of(kFileNode);
      entry.entry_valid = kValidSeconds;
      return reply(id, entry);
    }
    case FUSE_GETATTR: {
      // Only the file's are ever needed: the root's come with the mount.
      fuse_attr_out attributes{};
      attributes.attr = attributes_of(kFileNode);
      return reply(id, attributes);
    }
    case FUSE_STATFS: {
      // An overlay asks for it when it is mounted.
      fuse_statfs_out statistics{};
      statistics.st.namelen = 255;
      return reply(id, statistics);
    }
    case FUSE_FLUSH: {
      // Refused once, it would not be sent again: each close is to wait for an answer.
      fuse_out_header done{.len = sizeof(fuse_out_header), .error = 0, .unique = id};
      (void)!::write(device_.get(), &done, sizeof done);
      return;
    }
    case FUSE_OPEN:
      return reply(id, fuse_open_out{.fh = 1, .open_flags = 0, .padding = 0});
    default: {
      fuse_out_header refused{.len = sizeof(fuse_out_header), .error = -38, .unique = id};
      (void)!::write(device_.get(), &refused, sizeof refused);
    }
  }
}

}  // namespace profd::test
