#include "formats/elf/elf_tables.h"

#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>

#include "formats/base/errors.h"

namespace profd::elf {
namespace {

constexpr std::uint64_t kMaxFileBytes = std::uint64_t{4} << 30;
constexpr std::size_t kMaxSegments = 1024;

}  // namespace

std::size_t read_up_to(int fd, std::uint64_t offset, void* to, std::size_t bytes) {
  auto* const next = static_cast<char*>(to);
  std::size_t done = 0;
  while (done < bytes && offset + done <= kMaxFileBytes) {
    const ssize_t got = ::pread(fd, next + done, bytes - done, static_cast<off_t>(offset + done));
    if (got < 0 && errno == EINTR) continue;
    if (got <= 0) break;
    done += static_cast<std::size_t>(got);
  }
  return done;
}

bool read_at(int fd, std::uint64_t offset, void* to, std::size_t bytes) {
  return read_up_to(fd, offset, to, bytes) == bytes;
}

namespace {

Result<void> check_ident(const Elf64_Ehdr& header) {
  if (std::memcmp(header.e_ident, ELFMAG, SELFMAG) != 0) return malformed("not an ELF file");
  if (header.e_ident[EI_CLASS] != ELFCLASS64) {
    return fail(ErrorCode::kUnsupported, "a 32-bit ELF file; only 64-bit ones are supported");
  }
  if (header.e_ident[EI_DATA] != ELFDATA2LSB) {
    return fail(ErrorCode::kUnsupported,
                "a big-endian ELF file; only little-endian ones are supported");
  }
  return {};
}

// The header of a 64-bit little-endian file of at most 4 GiB.
Result<Elf64_Ehdr> read_header(int fd) {
  struct stat status {};
  if (::fstat(fd, &status) != 0) return fail_errno("could not stat an ELF file");
  if (static_cast<std::uint64_t>(status.st_size) > kMaxFileBytes) {
    return fail(ErrorCode::kTooLarge, "an ELF file larger than 4 GiB");
  }
  Elf64_Ehdr header{};
  if (!read_at(fd, 0, header.e_ident, EI_NIDENT)) return malformed("not an ELF file");
  if (const Result<void> ident = check_ident(header); !ident) return ident.error();
  if (!read_at(fd, EI_NIDENT, &header.e_type, sizeof header - EI_NIDENT)) {
    return malformed("an ELF file cut in its header");
  }
  return header;
}

Result<std::vector<Elf64_Phdr>> read_program_headers(int fd, const Elf64_Ehdr& header) {
  if (header.e_phnum == 0) return std::vector<Elf64_Phdr>{};
  if (header.e_phentsize != sizeof(Elf64_Phdr) || header.e_phnum > kMaxSegments) {
    return malformed("an ELF file with malformed program headers");
  }
  auto table = read_table<Elf64_Phdr>(fd, header.e_phoff, header.e_phnum);
  if (!table) return malformed("an ELF file cut in its program headers");
  return std::move(*table);
}

// Empty for a file without section headers and for one with malformed ones.
std::vector<Elf64_Shdr> read_section_headers(int fd, const Elf64_Ehdr& header) {
  if (header.e_shnum == 0 || header.e_shentsize != sizeof(Elf64_Shdr)) return {};
  return read_table<Elf64_Shdr>(fd, header.e_shoff, header.e_shnum)
      .value_or(std::vector<Elf64_Shdr>{});
}

}  // namespace

Result<Headers> read_headers(int fd) {
  const Result<Elf64_Ehdr> file = read_header(fd);
  if (!file) return file.error();
  Result<std::vector<Elf64_Phdr>> segments = read_program_headers(fd, *file);
  if (!segments) return segments.error();
  return Headers{*file, std::move(*segments), read_section_headers(fd, *file)};
}

}  // namespace profd::elf
