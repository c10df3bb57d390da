#include "collectors/symbolizer/dwarf_file.h"

#include <gelf.h>
#include <sys/stat.h>

#include <algorithm>
#include <cstring>
#include <new>
#include <string_view>
#include <utility>

#include <boost/endian/conversion.hpp>
#include <elfutils/libdwelf.h>

namespace profd {
namespace symbolizer {
namespace {

constexpr std::uint32_t kZstdCompression = 2;  // ELFCOMPRESS_ZSTD, which Debian 12's elf.h lacks

struct DebugSections {
  bool have_info = false;
  bool have_zstd = false;
  std::uint64_t decompressed_bytes = 0;

  // Each size may be the largest number.
  void add_bytes(std::uint64_t bytes) {
    decompressed_bytes += std::min(bytes, ~std::uint64_t{0} - decompressed_bytes);
  }
};

// Those that libdw decompresses, in the form of a "z" before the name too.
bool is_decompressed(std::string_view name) {
  return name.starts_with(".debug_") || name.starts_with(".zdebug_") ||
         name.starts_with(".gnu_debugaltlink") || name.starts_with(".zgnu_debugaltlink") ||
         name.starts_with(".gnu.debuglto_");
}

// The size before it was compressed that a section's content begins with: "ZLIB" and 8 bytes, the
// form before compression was standardized.
std::uint64_t size_in_zdebug(Elf_Scn* section) {
  const Elf_Data* const data = ::elf_rawdata(section, nullptr);
  if (data == nullptr || data->d_size < 12 || std::memcmp(data->d_buf, "ZLIB", 4) != 0) return 0;
  return boost::endian::load_big_u64(static_cast<const unsigned char*>(data->d_buf) + 4);
}

void add_section(Elf_Scn* section, std::string_view name, const GElf_Shdr& header,
                 DebugSections& found) {
  if (header.sh_type == SHT_NOBITS || !is_decompressed(name)) return;
  const bool is_zdebug = name.starts_with(".z");
  found.have_info |= name == ".debug_info" || name == ".zdebug_info";
  GElf_Chdr compression{};
  if (is_zdebug) {
    found.add_bytes(size_in_zdebug(section));
  } else if ((header.sh_flags & SHF_COMPRESSED) != 0 &&
             ::gelf_getchdr(section, &compression) != nullptr) {
    found.have_zstd |= compression.ch_type == kZstdCompression;
    found.add_bytes(compression.ch_size);
  }
}

// Until `visit` returns false.
template <class Visit>
void for_each_section(Elf* elf, const Visit& visit) {
  std::size_t names = 0;
  if (::elf_getshdrstrndx(elf, &names) != 0) return;
  Elf_Scn* section = nullptr;
  while ((section = ::elf_nextscn(elf, section)) != nullptr) {
    GElf_Shdr header{};
    if (::gelf_getshdr(section, &header) == nullptr) continue;
    const char* const name = ::elf_strptr(elf, names, header.sh_name);
    if (name != nullptr && !visit(section, name, header)) return;
  }
}

DebugSections debug_sections_of(Elf* elf, std::uint64_t decompressed_bytes) {
  DebugSections found;
  for_each_section(elf, [&](Elf_Scn* section, std::string_view name, const GElf_Shdr& header) {
    add_section(section, name, header, found);
    return found.decompressed_bytes <= decompressed_bytes;
  });
  return found;
}

DwarfLoss loss_of_type(Elf* elf) {
  GElf_Ehdr header{};
  if (::elf_kind(elf) != ELF_K_ELF || ::gelf_getehdr(elf, &header) == nullptr) {
    return DwarfLoss::kMalformed;
  }
  const bool is_executable = header.e_type == ET_EXEC || header.e_type == ET_DYN;
  return is_executable ? DwarfLoss::kNone : DwarfLoss::kNotExecutable;
}

DwarfLoss loss_of_sections(Elf* elf, std::uint64_t decompressed_bytes) {
  const DebugSections sections = debug_sections_of(elf, decompressed_bytes);
  if (sections.decompressed_bytes > decompressed_bytes) return DwarfLoss::kTooLarge;
  if (sections.have_zstd) return DwarfLoss::kZstd;
  return sections.have_info ? DwarfLoss::kNone : DwarfLoss::kNoDwarf;
}

std::string_view build_id_of(Elf* elf) {
  const void* bytes = nullptr;
  const auto size = ::dwelf_elf_gnu_build_id(elf, &bytes);
  return size <= 0
             ? std::string_view()
             : std::string_view(static_cast<const char*>(bytes), static_cast<std::size_t>(size));
}

ElfPointer open_elf(int fd) {
  [[maybe_unused]] static const unsigned version = ::elf_version(EV_CURRENT);
  return ElfPointer(::elf_begin(fd, ELF_C_READ_MMAP, nullptr));
}

bool is_too_large(int fd) {
  struct stat status {};
  return ::fstat(fd, &status) != 0 || status.st_size < 0 ||
         static_cast<std::uint64_t>(status.st_size) > kMaxDwarfFileBytes;
}

bool has_other_build_id(int fd, Elf* debug_file) {
  const ElfPointer elf = open_elf(fd);
  if (!elf) return false;
  const std::string_view own = build_id_of(elf.get());
  const std::string_view other = build_id_of(debug_file);
  return !own.empty() && !other.empty() && own != other;
}

// libdw's own handler exits the process. clang takes the attribute of C for a part of the type.
__attribute__((noreturn)) void throw_out_of_memory() { throw std::bad_alloc(); }

std::string_view bytes_of(Elf_Scn* section) {
  const Elf_Data* const data = ::elf_rawdata(section, nullptr);
  if (data == nullptr || data->d_buf == nullptr) return {};
  return {static_cast<const char*>(data->d_buf), data->d_size};
}

// "PATH", a NUL and the build id.
AltLink link_in(Elf_Scn* section) {
  const std::string_view bytes = bytes_of(section);
  const std::size_t end = bytes.find('\0');
  if (end == bytes.npos || end == 0 || end > kMaxAltPathBytes ||
      bytes.size() - end - 1 > kMaxBuildIdBytes) {
    return {};
  }
  return {.path = std::string(bytes.substr(0, end)),
          .build_id = std::string(bytes.substr(end + 1))};
}

AltLink alt_link_of(Elf* elf) {
  AltLink link;
  for_each_section(elf, [&link](Elf_Scn* section, std::string_view name, const GElf_Shdr& header) {
    if (name == ".gnu_debugaltlink" && header.sh_type != SHT_NOBITS) link = link_in(section);
    return link.path.empty();
  });
  return link;
}

}  // namespace

boost::system::result<DwarfFile::Opened, DwarfLoss> DwarfFile::open_one(
    int fd, std::uint64_t decompressed_bytes, bool is_alt_file) {
  if (is_too_large(fd)) return DwarfLoss::kTooLarge;
  Opened opened{.elf = open_elf(fd), .dwarf = nullptr};
  if (!opened.elf) return DwarfLoss::kMalformed;
  // dwz's file has the type of an object file, but nothing to relocate.
  DwarfLoss loss = is_alt_file ? DwarfLoss::kNone : loss_of_type(opened.elf.get());
  if (loss == DwarfLoss::kNone) loss = loss_of_sections(opened.elf.get(), decompressed_bytes);
  if (loss != DwarfLoss::kNone) return loss;
  opened.dwarf.reset(::dwarf_begin_elf(opened.elf.get(), DWARF_C_READ, nullptr));
  if (!opened.dwarf) return DwarfLoss::kMalformed;
  ::dwarf_new_oom_handler(opened.dwarf.get(), &throw_out_of_memory);
  return opened;
}

boost::system::result<DwarfFile, DwarfLoss> DwarfFile::open(const DwarfFiles& files,
                                                            std::uint64_t decompressed_bytes) {
  const auto with_alt_file = [&](Opened& opened) {
    DwarfFile file(std::move(opened));
    if (files.alt_file >= 0) file.set_alt_file(files.alt_file, decompressed_bytes);
    return file;
  };
  if (files.debug_file >= 0) {
    auto debug = open_one(files.debug_file, decompressed_bytes);
    if (debug && has_other_build_id(files.file, debug->elf.get())) {
      return DwarfLoss::kOtherDebugFile;
    }
    if (debug) return with_alt_file(*debug);
    if (debug.error() != DwarfLoss::kNoDwarf) return debug.error();
  }
  auto own = open_one(files.file, decompressed_bytes);
  if (!own) return own.error();
  return with_alt_file(*own);
}

// A file that is none, or not the one referred to, is left out: names in it are then unknown.
void DwarfFile::set_alt_file(int fd, std::uint64_t decompressed_bytes) {
  const AltLink link = alt_link_of(elf_.get());
  if (link.path.empty() || link.build_id.empty()) return;
  auto opened = open_one(fd, decompressed_bytes, true);
  if (!opened || build_id_of(opened->elf.get()) != link.build_id) return;
  alt_elf_ = std::move(opened->elf);
  alt_dwarf_ = std::move(opened->dwarf);
  ::dwarf_setalt(dwarf_.get(), alt_dwarf_.get());
}

// libdw has decompressed them, under the names that they had.
LineSections DwarfFile::line_sections() const {
  LineSections found;
  for_each_section(elf_.get(), [&](Elf_Scn* section, std::string_view name,
                                   const GElf_Shdr& header) {
    if (header.sh_type == SHT_NOBITS) return true;
    const auto is = [name](std::string_view wanted) {
      return name.ends_with(wanted) && (name.substr(0, name.size() - wanted.size()) == ".debug_" ||
                                        name.substr(0, name.size() - wanted.size()) == ".zdebug_");
    };
    if (is("line")) found.lines = bytes_of(section);
    if (is("line_str")) found.line_strings = bytes_of(section);
    if (is("str")) found.strings = bytes_of(section);
    return true;
  });
  return found;
}

}  // namespace symbolizer

AltLink find_alt_link(const DwarfFiles& files) {
  for (const int fd : {files.debug_file, files.file}) {
    const auto elf = fd < 0 ? symbolizer::ElfPointer() : symbolizer::open_elf(fd);
    AltLink link = elf ? symbolizer::alt_link_of(elf.get()) : AltLink();
    if (!link.path.empty()) return link;
  }
  return {};
}

}  // namespace profd
