#include "collectors/files/vdso.h"

#include <elf.h>
#include <sys/auxv.h>
#include <sys/mman.h>
#include <unistd.h>

#include <algorithm>
#include <cstring>

namespace profd {
namespace {

// The image is the kernel's own, so its headers are valid. The section headers come last.
std::size_t bytes_of(const char* image) {
  Elf64_Ehdr header;
  std::memcpy(&header, image, sizeof header);
  std::size_t bytes = header.e_shoff + std::size_t{header.e_shnum} * header.e_shentsize;
  for (std::size_t i = 0; i < header.e_phnum; ++i) {
    Elf64_Phdr segment;
    std::memcpy(&segment, image + header.e_phoff + i * header.e_phentsize, sizeof segment);
    bytes = std::max<std::size_t>(bytes, segment.p_offset + segment.p_filesz);
  }
  return bytes;
}

}  // namespace

Result<UniqueFd> copy_own_vdso() {
  const auto address = ::getauxval(AT_SYSINFO_EHDR);
  if (address == 0)
    return fail(ErrorCode::kUnsupported, "the kernel has not mapped a vDSO into this process");
  // The kernel gives the address as a number.
  const auto* image = reinterpret_cast<const char*>(address);  // NOLINT(performance-no-int-to-ptr)
  UniqueFd fd(::memfd_create("vdso", MFD_CLOEXEC));
  if (!fd.valid()) return fail_errno("could not create a memfd");
  const std::size_t bytes = bytes_of(image);
  if (::write(fd.get(), image, bytes) != static_cast<ssize_t>(bytes)) {
    return fail_errno("could not copy the vDSO");
  }
  return fd;
}

}  // namespace profd
