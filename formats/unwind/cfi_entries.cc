#include "formats/unwind/cfi_entries.h"

#include "formats/base/cursor.h"
#include "formats/elf/dwarf_cursor.h"

namespace profd {
namespace {

constexpr std::uint32_t kLength64 = 0xffffffff;
constexpr std::uint64_t kMaxCodeAlignment = 16;

// A CIE can be read again for each of a million FDEs, so its size is limited: real ones have
// an augmentation like "zPLR" and about ten bytes of instructions.
constexpr std::size_t kMaxAugmentationBytes = 16;
constexpr std::size_t kMaxCieInstructionBytes = 256;
constexpr std::int64_t kGoDataAlignment = -4;  // of Go's linker only; others write -8

struct Length {
  std::uint64_t bytes = 0;  // of the entry, without the length itself
  bool is_64_bit = false;
};

Length read_length(Cursor& cursor) {
  const auto bytes = cursor.read<std::uint32_t>();
  if (bytes != kLength64) return {bytes, false};
  return {cursor.read<std::uint64_t>(), true};
}

// gcc before 3.0 wrote "eh" and an address, without 'z' and the length of the data.
struct Augmentation {
  std::string_view letters;
  bool is_old = false;
};

std::optional<Augmentation> read_augmentation(Cursor& cursor, std::string_view body) {
  const std::size_t start = cursor.offset();
  const std::size_t end = body.substr(0, start + kMaxAugmentationBytes).find('\0', start);
  if (end == std::string_view::npos) return std::nullopt;
  const std::string_view text = cursor.read_bytes(end - start);
  cursor.read<std::uint8_t>();
  if (text == "eh") return Augmentation{{}, true};
  const bool is_known = text.empty() || text[0] == 'z' || text == "S";
  return is_known ? std::optional(Augmentation{text, false}) : std::nullopt;
}

// False for an unknown letter: its data, and what follows, can't be read.
bool read_augmentation_data(std::string_view letters, std::string_view data, CfiCie& cie) {
  Cursor cursor(data);
  for (const char letter : letters.substr(1)) {
    switch (letter) {
      case 'R':
        cie.pointer_encoding = cursor.read<std::uint8_t>();
        break;
      case 'P': {  // the personality function
        const auto encoding = cursor.read<std::uint8_t>();
        if (!dwarf::read_pointer_value(cursor, encoding)) return false;
        break;
      }
      case 'L':
        cursor.read<std::uint8_t>();
        break;
      case 'S':
        cie.is_signal_frame = true;
        break;
      default:
        return false;
    }
  }
  return cursor.ok();
}

// DWARF 4 and 5 add the sizes of addresses and segments.
bool read_version(Cursor& cursor, std::string_view body, std::uint8_t& version,
                  std::optional<Augmentation>& augmentation) {
  version = cursor.read<std::uint8_t>();
  if (version != 1 && version != 3 && version != 4) return false;
  augmentation = read_augmentation(cursor, body);
  if (!augmentation) return false;
  if (augmentation->is_old) cursor.read<std::uint64_t>();
  if (version < 4) return cursor.ok();
  const auto address_bytes = cursor.read<std::uint8_t>();
  const auto segment_bytes = cursor.read<std::uint8_t>();
  return cursor.ok() && address_bytes == 8 && segment_bytes == 0;
}

}  // namespace

std::optional<CfiEntry> read_cfi_entry(const CfiSection& section, std::uint64_t position) {
  if (position >= section.bytes.size()) return std::nullopt;
  Cursor cursor(std::string_view(section.bytes).substr(position));
  const Length length = read_length(cursor);
  const std::uint64_t id_position = cursor.offset();
  const std::string_view content = cursor.read_bytes(length.bytes);
  if (!cursor.ok()) return std::nullopt;
  Cursor inner(content);
  const bool wide_id = length.is_64_bit && !section.is_eh_frame;
  const std::uint64_t id = wide_id ? inner.read<std::uint64_t>() : inner.read<std::uint32_t>();
  if (!inner.ok()) return std::nullopt;
  // The id of an FDE is the position of its CIE: in .eh_frame backwards from the id, in
  // .debug_frame from the start of the section.
  const std::uint64_t cie_id = section.is_eh_frame ? 0 : wide_id ? ~std::uint64_t{0} : 0xffffffff;
  return CfiEntry{.position = position,
                  .is_cie = id == cie_id,
                  .cie_position = section.is_eh_frame ? position + id_position - id : id,
                  .body = content.substr(inner.offset()),
                  .body_position = position + id_position + inner.offset()};
}

std::optional<CfiEntry> CfiEntries::next() {
  while (position_ < section_.bytes.size()) {
    Cursor cursor(std::string_view(section_.bytes).substr(position_));
    const Length length = read_length(cursor);
    const std::uint64_t position = position_;
    malformed_ = !cursor.ok() || length.bytes > cursor.remaining();
    if (malformed_) return std::nullopt;
    position_ += cursor.offset() + length.bytes;
    const bool is_terminator = length.bytes == 0;
    if (is_terminator && !section_.has_known_end) return std::nullopt;
    if (is_terminator) continue;
    if (auto entry = read_cfi_entry(section_, position)) return entry;
    malformed_ = true;
    return std::nullopt;
  }
  return std::nullopt;
}

std::optional<CfiCie> read_cie(const CfiSection& section, const CfiEntry& entry) {
  if (!entry.is_cie) return std::nullopt;
  CfiCie cie;
  Cursor cursor(entry.body);
  std::uint8_t version = 0;
  std::optional<Augmentation> augmentation;
  if (!read_version(cursor, entry.body, version, augmentation)) return std::nullopt;
  cie.code_alignment = dwarf::read_uleb(cursor);
  cie.data_alignment = dwarf::read_sleb(cursor);
  cie.is_go = !section.is_eh_frame && cie.data_alignment == kGoDataAlignment;
  const std::uint64_t return_column =
      version == 1 ? cursor.read<std::uint8_t>() : dwarf::read_uleb(cursor);
  cie.is_signal_frame = augmentation->letters == "S";  // in .debug_frame, without data
  if (augmentation->letters.starts_with('z')) {
    cie.has_augmentation_data = true;
    const std::string_view data = cursor.read_bytes(dwarf::read_uleb(cursor));
    if (!read_augmentation_data(augmentation->letters, data, cie)) return std::nullopt;
  }
  const bool usable = cursor.ok() && return_column == kReturnAddressColumn &&
                      cie.code_alignment > 0 && cie.code_alignment <= kMaxCodeAlignment &&
                      cursor.remaining() <= kMaxCieInstructionBytes;
  if (!usable) return std::nullopt;
  cie.instructions_vaddr = section.vaddr + entry.body_position + cursor.offset();
  cie.instructions = cursor.read_bytes(cursor.remaining());
  return cie;
}

std::optional<CfiFde> read_fde(const CfiSection& section, const CfiEntry& entry,
                               const CfiCie& cie) {
  if (entry.is_cie) return std::nullopt;
  CfiFde fde;
  Cursor cursor(entry.body);
  const std::uint64_t body_vaddr = section.vaddr + entry.body_position;
  const auto start = dwarf::read_pointer(cursor, cie.pointer_encoding, body_vaddr);
  const auto bytes = dwarf::read_pointer_value(cursor, cie.pointer_encoding);
  if (!start || !bytes) return std::nullopt;
  if (cie.has_augmentation_data) cursor.read_bytes(dwarf::read_uleb(cursor));
  if (!cursor.ok()) return std::nullopt;
  fde.start = *start;
  fde.bytes = *bytes;
  fde.instructions_vaddr = body_vaddr + cursor.offset();
  fde.instructions = cursor.read_bytes(cursor.remaining());
  return fde;
}

}  // namespace profd
