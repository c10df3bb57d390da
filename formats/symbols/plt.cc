#include "formats/symbols/plt.h"

#include <algorithm>
#include <array>
#include <compare>
#include <optional>
#include <string_view>
#include <utility>

#include "formats/base/cursor.h"
#include "formats/symbols/symbol_table.h"

namespace profd {
namespace {

using namespace std::string_view_literals;

constexpr std::uint64_t kMaxSlotBytes = 16;

// What a slot jumps by: the address of an entry of the GOT, or (in the slots of a lazy PLT with
// IBT, which only run at the first call) the number of a relocation of .rela.plt.
struct Slot {
  bool has_number = false;
  std::uint64_t value = 0;

  friend auto operator<=>(const Slot&, const Slot&) = default;
};

// The bytes of one instruction or prefix, if the code has it there. Moves behind it.
bool skip(std::string_view& code, std::string_view bytes) {
  if (!code.starts_with(bytes)) return false;
  code.remove_prefix(bytes.size());
  return true;
}

// [endbr64] [mov $n,%r11d] [bnd] jmp *disp(%rip), or endbr64; push $n. `address` is that of `code`.
std::optional<Slot> decode_slot(std::string_view code, std::uint64_t address) {
  const std::size_t bytes = code.size();
  const bool has_endbr = skip(code, "\xf3\x0f\x1e\xfa"sv);
  if (has_endbr && skip(code, "\x68"sv)) {
    Cursor cursor(code);
    const auto relocation = cursor.read<std::uint32_t>();
    if (!cursor.ok()) return std::nullopt;
    return Slot{true, relocation};
  }
  if (skip(code, "\x41\xbb"sv)) code.remove_prefix(std::min<std::size_t>(code.size(), 4));
  (void)skip(code, "\xf2"sv);
  if (!skip(code, "\xff\x25"sv)) return std::nullopt;
  Cursor cursor(code);
  const auto displacement = static_cast<std::int32_t>(cursor.read<std::uint32_t>());
  if (!cursor.ok()) return std::nullopt;
  const std::uint64_t next = address + (bytes - cursor.remaining());
  return Slot{false, next + static_cast<std::uint64_t>(std::int64_t{displacement})};
}

// The slot that contains the address. Slots begin at multiples of 16 bytes or, in .plt.got, of 8.
std::optional<Slot> slot_at(const LimitedFile& file, const Elf64_Shdr& section,
                            std::uint64_t address) {
  for (const std::uint64_t alignment : {std::uint64_t{8}, std::uint64_t{16}}) {
    if (section.sh_entsize == 8 && alignment == 16) break;
    const std::uint64_t start = (address - section.sh_addr) & ~(alignment - 1);
    std::array<char, kMaxSlotBytes> code;
    const std::size_t bytes = std::min<std::uint64_t>(code.size(), section.sh_size - start);
    if (!file.read(section.sh_offset + start, code.data(), bytes)) return std::nullopt;
    const auto slot = decode_slot({code.data(), bytes}, section.sh_addr + start);
    if (slot) return slot;
  }
  return std::nullopt;
}

struct WantedSlot {
  Slot slot;
  std::uint64_t address = 0;
  bool is_named = false;
};

bool is_jump(std::uint64_t type) {
  return type == R_X86_64_JUMP_SLOT || type == R_X86_64_GLOB_DAT || type == R_X86_64_IRELATIVE;
}

std::string symbol_name(const LimitedFile& file, const Elf64_Shdr& relocations,
                        std::uint64_t index) {
  const auto& sections = file.elf().sections();
  if (relocations.sh_link >= sections.size()) return {};
  const Elf64_Shdr& symbols = sections[relocations.sh_link];
  const bool is_usable = symbols.sh_type == SHT_DYNSYM && symbols.sh_link < sections.size() &&
                         index < symbols.sh_size / sizeof(Elf64_Sym);
  Elf64_Sym symbol{};
  if (!is_usable || !file.read(symbols.sh_offset + index * sizeof symbol, &symbol, sizeof symbol)) {
    return {};
  }
  return read_symbol_name(file, sections[symbols.sh_link], symbol.st_name);
}

// The addresses in the slots that jump by `slot`; none if it has been asked for before.
std::vector<std::uint64_t> take(std::vector<WantedSlot>& wanted, const Slot& slot) {
  auto found = std::ranges::lower_bound(wanted, slot, {}, &WantedSlot::slot);
  std::vector<std::uint64_t> addresses;
  if (found == wanted.end() || found->is_named) return addresses;
  for (; found != wanted.end() && found->slot == slot; ++found) {
    found->is_named = true;
    addresses.push_back(found->address);
  }
  return addresses;
}

// Names the wanted slots by the relocations of one section.
void scan_relocations(const LimitedFile& file, const Elf64_Shdr& section, bool is_plt,
                      std::vector<WantedSlot>& wanted, std::vector<PltHit>& hits) {
  std::array<Elf64_Rela, 2730> chunk;
  const std::uint64_t count = section.sh_size / sizeof(Elf64_Rela);
  const auto add = [&](const Slot& slot, const Elf64_Rela& relocation) {
    const bool has_resolver = ELF64_R_TYPE(relocation.r_info) == R_X86_64_IRELATIVE;
    for (const std::uint64_t address : take(wanted, slot)) {
      PltHit hit{address, {}, 0};
      if (has_resolver) hit.resolver = static_cast<std::uint64_t>(relocation.r_addend);
      if (!has_resolver) hit.function = symbol_name(file, section, ELF64_R_SYM(relocation.r_info));
      hits.push_back(std::move(hit));
    }
  };
  for (std::uint64_t first = 0; first < count; first += chunk.size()) {
    const std::size_t part = std::min<std::uint64_t>(chunk.size(), count - first);
    const std::uint64_t offset = section.sh_offset + first * sizeof(Elf64_Rela);
    if (!file.read(offset, chunk.data(), part * sizeof(Elf64_Rela))) return;
    for (std::size_t i = 0; i < part; ++i) {
      if (!is_jump(ELF64_R_TYPE(chunk[i].r_info))) continue;
      add({false, chunk[i].r_offset}, chunk[i]);
      if (is_plt) add({true, first + i}, chunk[i]);
    }
  }
}

std::vector<WantedSlot> wanted_slots(const LimitedFile& file,
                                     std::span<const std::uint64_t> addresses) {
  std::vector<Elf64_Shdr> sections = file.elf().code_sections(".plt");
  const auto indirect = file.elf().code_sections(".iplt");
  sections.insert(sections.end(), indirect.begin(), indirect.end());
  std::vector<WantedSlot> wanted;
  for (const Elf64_Shdr& section : sections) {
    const auto first = std::ranges::lower_bound(addresses, section.sh_addr);
    for (auto address = first; address != addresses.end(); ++address) {
      if (*address - section.sh_addr >= section.sh_size) break;
      if (const auto slot = slot_at(file, section, *address)) wanted.push_back({*slot, *address});
    }
  }
  std::ranges::sort(wanted, {}, &WantedSlot::slot);
  return wanted;
}

}  // namespace

std::vector<PltHit> find_plt_slots(const LimitedFile& file,
                                   std::span<const std::uint64_t> addresses) {
  std::vector<PltHit> hits;
  std::vector<WantedSlot> wanted = wanted_slots(file, addresses);
  if (wanted.empty()) return hits;
  const Elf64_Shdr* const of_plt = file.elf().find_section(".rela.plt");
  for (const Elf64_Shdr& section : file.elf().sections()) {
    const bool is_usable = section.sh_type == SHT_RELA && (section.sh_flags & SHF_ALLOC) != 0 &&
                           section.sh_entsize == sizeof(Elf64_Rela);
    if (is_usable) scan_relocations(file, section, &section == of_plt, wanted, hits);
  }
  return hits;
}

}  // namespace profd
