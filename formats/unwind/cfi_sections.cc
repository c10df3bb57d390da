// Finds the call frame information of an ELF file.

#include <algorithm>
#include <optional>
#include <utility>

#include "formats/base/cursor.h"
#include "formats/base/errors.h"
#include "formats/base/inflate.h"
#include "formats/elf/dwarf_cursor.h"
#include "formats/unwind/cfi_entries.h"

namespace profd {
namespace {

constexpr std::uint64_t kMaxPackedBytes = std::uint64_t{8} << 20;
constexpr std::uint64_t kEhFrameHeaderBytes = 16;
// ELFCOMPRESS_*. glibc 2.36 does not define the one of zstd yet.
constexpr Elf64_Word kCompressedByZlib = 1;
constexpr Elf64_Word kCompressedByZstd = 2;

Error too_large() { return fail(ErrorCode::kTooLarge, "too much call frame information"); }
Error cut() { return malformed("call frame information beyond the file's end"); }
Error none() { return fail(ErrorCode::kNotFound, "no call frame information"); }

const Elf64_Phdr* segment_with(const std::vector<Elf64_Phdr>& segments, std::uint64_t vaddr) {
  const auto found = std::ranges::find_if(segments, [&](const Elf64_Phdr& p) {
    return p.p_type == PT_LOAD && vaddr >= p.p_vaddr && vaddr - p.p_vaddr < p.p_filesz;
  });
  return found == segments.end() ? nullptr : &*found;
}

// The address of .eh_frame that .eh_frame_hdr has behind its version, 1, and three encodings.
std::optional<std::uint64_t> eh_frame_of_header(std::string_view bytes, std::uint64_t vaddr) {
  Cursor cursor(bytes);
  const auto version = cursor.read<std::uint8_t>();
  const auto encoding = cursor.read<std::uint8_t>();
  cursor.read_bytes(2);
  if (version != 1) return std::nullopt;
  return dwarf::read_pointer(cursor, encoding, vaddr);
}

Result<std::string> read_plain(const CodeFile& file, const Elf64_Shdr& section,
                               std::size_t max_bytes) {
  if (section.sh_size > max_bytes) return too_large();
  std::string bytes = file.read(section.sh_offset, section.sh_size);
  if (bytes.empty()) return cut();
  return bytes;
}

Result<std::string> read_compressed(const CodeFile& file, const Elf64_Shdr& section,
                                    std::size_t max_bytes) {
  const Result<std::string> packed = read_plain(file, section, kMaxPackedBytes);
  if (!packed) return packed.error();
  Cursor cursor(*packed);
  const auto type = cursor.read<Elf64_Word>();
  cursor.read_bytes(sizeof(Elf64_Chdr) - sizeof type);
  if (!cursor.ok()) return cut();
  const std::string_view stream = cursor.read_bytes(cursor.remaining());
  switch (type) {
    case kCompressedByZlib:
      return inflate_zlib(stream, max_bytes);
    case kCompressedByZstd:
      return inflate_zstd(stream, max_bytes);
    default:
      return fail(ErrorCode::kUnsupported, "a section compressed in an unknown way");
  }
}

// .zdebug sections, older than SHF_COMPRESSED: "ZLIB" and the size in big endian come first.
Result<std::string> read_zdebug(const CodeFile& file, const Elf64_Shdr& section,
                                std::size_t max_bytes) {
  const Result<std::string> packed = read_plain(file, section, kMaxPackedBytes);
  if (!packed) return packed.error();
  Cursor cursor(*packed);
  const bool is_zlib = cursor.read_bytes(4) == "ZLIB";
  cursor.read<std::uint64_t>();
  if (!is_zlib || !cursor.ok()) return cut();
  return inflate_zlib(cursor.read_bytes(cursor.remaining()), max_bytes);
}

Result<CfiSection> read_segment_eh_frame(const CodeFile& file, std::size_t max_bytes) {
  const std::vector<Elf64_Phdr>& segments = file.program_headers();
  const auto header = std::ranges::find(segments, Elf64_Word{PT_GNU_EH_FRAME}, &Elf64_Phdr::p_type);
  if (header == segments.end()) return none();
  const auto vaddr =
      eh_frame_of_header(file.read(header->p_offset, kEhFrameHeaderBytes), header->p_vaddr);
  const Elf64_Phdr* segment = vaddr ? segment_with(segments, *vaddr) : nullptr;
  if (segment == nullptr) return cut();
  const std::uint64_t skipped = *vaddr - segment->p_vaddr;
  const std::uint64_t wanted = std::min<std::uint64_t>(segment->p_filesz - skipped, max_bytes);
  std::string bytes = file.read(segment->p_offset + skipped, wanted);
  if (bytes.empty()) return cut();
  return CfiSection{.bytes = std::move(bytes), .vaddr = *vaddr, .has_known_end = false};
}

}  // namespace

Result<CfiSection> read_eh_frame(const CodeFile& file, std::size_t max_bytes) {
  const Elf64_Shdr* section = file.find_section(".eh_frame");
  if (section == nullptr) return read_segment_eh_frame(file, max_bytes);
  Result<std::string> bytes = read_plain(file, *section, max_bytes);
  if (!bytes) return bytes.error();
  return CfiSection{.bytes = std::move(*bytes), .vaddr = section->sh_addr};
}

Result<CfiSection> read_debug_frame(const CodeFile& file, std::size_t max_bytes) {
  const Elf64_Shdr* plain = file.find_section(".debug_frame");
  const Elf64_Shdr* packed = file.find_section(".zdebug_frame");
  if (plain == nullptr && packed == nullptr) return none();
  Result<std::string> bytes = plain == nullptr ? read_zdebug(file, *packed, max_bytes)
                              : (plain->sh_flags & SHF_COMPRESSED) != 0
                                  ? read_compressed(file, *plain, max_bytes)
                                  : read_plain(file, *plain, max_bytes);
  if (!bytes) return bytes.error();
  return CfiSection{.bytes = std::move(*bytes), .is_eh_frame = false};
}

}  // namespace profd
