#include "tests/formats/python/made_python.h"

#include <elf.h>

#include <algorithm>
#include <array>
#include <cstring>

#include "tests/formats/elf/hostile_elf.h"
#include "tests/formats/python/made_code.h"

namespace profd::test {
namespace {

constexpr std::uint64_t kPhdrs = sizeof(Elf64_Ehdr);

// By the minor version from 8 on, of CPython's headers. 3.15 has no key.
constexpr std::array<std::uint64_t, 8> kTssOffsets = {1392, 584, 584, 592, 1544, 2160, 2336, 0};
constexpr std::array<std::uint64_t, 8> kBasicsizes = {176, 176, 176, 184, 192, 200, 208, 208};
constexpr std::array<std::uint64_t, 8> kRuntimeBytes = {1464,    656,     672,     0x28b20,
                                                        0x704a8, 0x452b8, 0x50000, 0x50000};

using Numbers = std::vector<std::pair<std::uint64_t, std::uint64_t>>;

// The numbers of struct _Py_DebugOffsets by their bytes; those of 3.13 as a build of 3.13.0 has
// them.
Numbers debug_offsets(unsigned minor) {
  if (minor == 13) {
    return {{184, 72},  {192, 152}, {232, 8},   {240, 0},   {248, 56},  {264, 70},
            {272, 208}, {280, 112}, {288, 120}, {296, 128}, {304, 136}, {312, 68},
            {344, 200}, {360, 8},   {528, 32},  {544, 32},  {552, 16},  {560, 40}};
  }
  if (minor == 14) {
    return {{208, 72},  {216, 152}, {256, 8},   {264, 0},   {272, 56}, {288, 74},
            {320, 112}, {328, 120}, {336, 128}, {344, 136}, {352, 68}, {384, 208},
            {408, 8},   {608, 32},  {624, 32},  {632, 16},  {640, 40}};
  }
  if (minor == 15) {
    return {{208, 72},  {240, 176}, {320, 8},   {328, 0},   {336, 56}, {352, 74},
            {384, 112}, {392, 120}, {400, 128}, {408, 136}, {416, 68}, {448, 208},
            {472, 8},   {704, 32},  {720, 32},  {728, 16},  {736, 40}};
  }
  return {};
}

template <class T>
void put(std::string& image, std::uint64_t at, const T& value) {
  std::memcpy(image.data() + at, &value, sizeof value);
}
void put_text(std::string& image, std::uint64_t at, const std::string& text) {
  image.replace(at, text.size(), text);
}

struct MadeSymbol {
  std::string name;
  std::uint64_t at;
  std::uint64_t bytes;
};

std::uint32_t hash_for_gnu(const std::string& name) {
  std::uint32_t hash = 5381;
  for (const char c : name) hash = hash * 33 + static_cast<unsigned char>(c);
  return hash;
}

// One bucket with all symbols in it, and a Bloom filter that lets all names pass.
void put_hash(std::string& image, const std::vector<MadeSymbol>& symbols, bool is_gnu) {
  CfiBytes table;
  const auto count = static_cast<std::uint32_t>(symbols.size());
  if (is_gnu) {
    table.u32(1).u32(1).u32(1).u32(0).u64(~std::uint64_t{0}).u32(count == 0 ? 0 : 1);
    for (std::uint32_t i = 0; i < count; ++i) {
      table.u32((hash_for_gnu(symbols[i].name) & ~1U) | (i + 1 == count ? 1U : 0U));
    }
  } else {
    table.u32(1).u32(count + 1).u32(count == 0 ? 0 : 1).u32(0);
    for (std::uint32_t i = 1; i <= count; ++i) table.u32(i == count ? 0 : i + 1);
  }
  put_text(image, MadePython::kHash, table.str());
}

std::string gilstate_code(const MadePython& python) {
  MadeCode code(MadePython::kBase + MadePython::kGilstate);
  const std::uint64_t outside = MadePython::kBase + MadePython::kOther;
  if (python.minor == 15) {
    if (!python.is_library) return code.add("\x64\x48\x8b\x04\x25\xd8\xff\xff\xff\xc3").bytes();
    code.add("\x48\x8d\x3d").to(MadePython::kBase + MadePython::kPair);  // lea pair(%rip), %rdi
    code.add("\xe8").to(outside);                                        // call __tls_get_addr
    return code.add("\x48\x8b\x40\x10\xc3").bytes();                     // mov 16(%rax), %rax
  }
  if (!python.is_library) {
    code.add("\x8b\x3d").to(python.key());  // mov key(%rip), %edi
    return code.add("\xe9").to(outside).bytes();
  }
  code.add("\x48\x8b\x05").to(MadePython::kBase + MadePython::kGot);  // mov (%rip), %rax
  const std::uint64_t runtime = MadePython::kBase + MadePython::kRuntime;
  code.add("\x48\x8d\xb8").int32(static_cast<std::int64_t>(python.key() - 4 - runtime));
  return code.add("\xe9").to(outside).bytes();
}

std::string current_code(const MadePython& python) {
  MadeCode code(MadePython::kBase + MadePython::kCurrent);
  if (!python.is_library) return code.add("\x64\x48\x8b\x04\x25\xe0\xff\xff\xff\xc3").bytes();
  code.add("\x48\x8d\x3d").to(MadePython::kBase + MadePython::kPair);
  code.add("\xe8").to(MadePython::kBase + MadePython::kOther);
  return code.add("\x48\x8b\x40\x08\xc3").bytes();  // mov 8(%rax), %rax; ret
}

// Three jumps into the cold part, one to its start, and two calls of another function.
std::string eval_code() {
  const std::uint64_t cold = MadePython::kBase + MadePython::kCold;
  const std::uint64_t other = MadePython::kBase + MadePython::kOther;
  MadeCode code(MadePython::kBase + MadePython::kEval);
  code.add("\x0f\x84").to(cold + 0x10);
  code.add("\xe9").to(cold + 0x20);
  code.add("\x0f\x8f").to(cold + 0x30);
  code.add("\xe9").to(cold);
  code.add("\xe9").to(other).add("\xe9").to(other).add("\xe9").to(other);
  code.add("\xe9").to(other + 4);  // a byte that only looks like a jump
  return code.bytes();
}

// A CIE with addresses of 4 bytes, an FDE for each function, and the header that leads to them.
void put_frames(std::string& image) {
  CfiBytes header;
  header.u8(1).u8(0x03).u8(0xff).u8(0xff).u32(MadePython::kBase + MadePython::kFrames);
  put_text(image, MadePython::kFrameHeader, header.str());
  CfiBytes frames;
  frames.u32(20).u32(0).u8(1).text("zR").u8(0).u8(1).u8(0x78).u8(16).u8(1).u8(0x03);
  frames.text("\x0c\x07\x08\x90\x01").u8(0).u8(0);
  const std::array<std::pair<std::uint64_t, std::uint64_t>, 4> functions = {
      {{MadePython::kGilstate, 0x40},
       {MadePython::kEval, MadePython::kEvalBytes},
       {MadePython::kOther, 0x40},
       {MadePython::kCold, MadePython::kColdBytes}}};
  for (const auto& [at, bytes] : functions) {
    const std::uint32_t to_cie = frames.size() + 4;
    frames.u32(16).u32(to_cie).u32(static_cast<std::uint32_t>(MadePython::kBase + at));
    frames.u32(static_cast<std::uint32_t>(bytes)).u32(0);
  }
  frames.u32(0);
  put_text(image, MadePython::kFrames, frames.str());
}

void put_dynamic(std::string& image, const MadePython& python) {
  constexpr std::uint64_t kBase = MadePython::kBase;
  std::vector<std::pair<std::int64_t, std::uint64_t>> entries = {
      {DT_SYMTAB, kBase + MadePython::kSymbols},
      {DT_STRTAB, kBase + MadePython::kStrings},
      {DT_STRSZ, MadePython::kRelocations - MadePython::kStrings},
      {DT_RELA, kBase + MadePython::kRelocations},
      {DT_RELASZ, 2 * sizeof(Elf64_Rela)},
      {python.has_gnu_hash ? DT_GNU_HASH : DT_HASH, kBase + MadePython::kHash},
  };
  if (!python.needed.empty()) entries.emplace_back(DT_NEEDED, 1);
  std::uint64_t at = MadePython::kDynamic;
  for (const auto& [tag, value] : entries) {
    Elf64_Dyn entry{};
    entry.d_tag = tag;
    entry.d_un.d_val = value;
    put(image, at, entry);
    at += sizeof entry;
  }
}

void put_relocations(std::string& image) {
  Elf64_Rela runtime{};
  runtime.r_offset = MadePython::kBase + MadePython::kGot;
  runtime.r_info = ELF64_R_INFO(0, R_X86_64_RELATIVE);
  runtime.r_addend = MadePython::kBase + MadePython::kRuntime;
  put(image, MadePython::kRelocations, runtime);
  Elf64_Rela module{};
  module.r_offset = MadePython::kBase + MadePython::kPair;
  module.r_info = ELF64_R_INFO(0, R_X86_64_DTPMOD64);
  put(image, MadePython::kRelocations + sizeof runtime, module);
}

void put_headers(std::string& image) {
  Elf64_Ehdr header{};
  std::memcpy(header.e_ident, ELFMAG, SELFMAG);
  header.e_ident[EI_CLASS] = ELFCLASS64;
  header.e_ident[EI_DATA] = ELFDATA2LSB;
  header.e_type = ET_DYN;
  header.e_machine = EM_X86_64;
  header.e_phoff = kPhdrs;
  header.e_phentsize = sizeof(Elf64_Phdr);
  header.e_phnum = 3;
  put(image, 0, header);
  const auto segment = [](std::uint32_t type, std::uint64_t at, std::uint64_t bytes) {
    Elf64_Phdr made{};
    made.p_type = type;
    made.p_flags = PF_R | PF_X;
    made.p_offset = at;
    made.p_vaddr = MadePython::kBase + at;
    made.p_filesz = made.p_memsz = bytes;
    return made;
  };
  put(image, kPhdrs, segment(PT_LOAD, 0, MadePython::kBytes));
  put(image, kPhdrs + sizeof(Elf64_Phdr),
      segment(PT_DYNAMIC, MadePython::kDynamic, MadePython::kHash - MadePython::kDynamic));
  put(image, kPhdrs + 2 * sizeof(Elf64_Phdr),
      segment(PT_GNU_EH_FRAME, MadePython::kFrameHeader, 16));
}

// The strings begin with NUL, the needed library and its NUL.
void put_symbols(std::string& image, const std::vector<MadeSymbol>& symbols,
                 const std::string& needed) {
  std::string strings = '\0' + needed + '\0';
  std::uint64_t at = MadePython::kSymbols + sizeof(Elf64_Sym);
  for (const MadeSymbol& symbol : symbols) {
    Elf64_Sym made{};
    made.st_name = static_cast<Elf64_Word>(strings.size());
    made.st_info = ELF64_ST_INFO(STB_GLOBAL, STT_OBJECT);
    made.st_shndx = 1;
    made.st_value = MadePython::kBase + symbol.at;
    made.st_size = symbol.bytes;
    put(image, at, made);
    at += sizeof made;
    strings += symbol.name + '\0';
  }
  put_text(image, MadePython::kStrings, strings);
}

}  // namespace

MadePython::MadePython(unsigned minor_version)
    : minor(minor_version),
      version(0x030002f0 | std::uint64_t{minor_version} << 16),
      code_basicsize(kBasicsizes.at(minor_version - 8)),
      runtime_bytes(kRuntimeBytes.at(minor_version - 8)) {}

std::uint64_t MadePython::key() const { return kBase + kRuntime + kTssOffsets.at(minor - 8) + 4; }

std::string MadePython::bytes() const {
  std::string image(kBytes, '\0');
  std::vector<MadeSymbol> symbols = {
      {"_PyRuntime", kRuntime, runtime_bytes},
      {"PyCode_Type", kCodeType, 416},
      {"_PyEval_EvalFrameDefault", kEval, kEvalBytes},
      {"PyGILState_GetThisThreadState", kGilstate, 0x40},
  };
  if (minor >= 11) symbols.push_back({"Py_Version", kVersion, 8});
  if (minor >= 12) symbols.push_back({"_PyThreadState_GetCurrent", kCurrent, 0x40});
  std::erase_if(symbols, [this](const MadeSymbol& symbol) {
    return std::ranges::find(without, symbol.name) != without.end();
  });
  put_headers(image);
  put_dynamic(image, *this);
  put_hash(image, symbols, has_gnu_hash);
  put_symbols(image, symbols, needed);
  put_relocations(image);
  put_text(image, kGilstate, gilstate_code(*this));
  put_text(image, kCurrent, current_code(*this));
  put_text(image, kEval, eval_code());
  put_frames(image);
  put(image, kVersion, version);
  put(image, kCodeType + 32, code_basicsize);
  if (minor >= 13) {
    put_text(image, kRuntime, "xdebugpy");
    put(image, kRuntime + 8, version);
    for (const auto& [at, number] : debug_offsets(minor)) put(image, kRuntime + at, number);
  }
  for (const auto& [at, number] : changes) put(image, at, number);
  return image;
}

}  // namespace profd::test
