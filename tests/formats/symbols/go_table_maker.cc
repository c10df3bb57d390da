#include "tests/formats/symbols/go_table_maker.h"

#include <elf.h>

#include <cstring>
#include <initializer_list>

namespace profd::test {
namespace {

using go::Layout;

constexpr std::uint64_t kStart = 0x1000;  // the offset and the address of the segment
constexpr std::uint64_t kText = 0x400000;

class GoBytes {
 public:
  GoBytes& u8(std::initializer_list<unsigned> values) {
    for (const unsigned value : values) text_.push_back(static_cast<char>(value));
    return *this;
  }
  GoBytes& u32(std::initializer_list<std::uint32_t> values) {
    for (const std::uint32_t value : values) put(value);
    return *this;
  }
  GoBytes& u64(std::initializer_list<std::uint64_t> values) {
    for (const std::uint64_t value : values) put(value);
    return *this;
  }
  GoBytes& varint(std::uint32_t value) {
    for (; value >= 0x80; value >>= 7) u8({(value & 0x7f) | 0x80});
    return u8({value});
  }
  GoBytes& bytes(const std::string& text) {
    text_ += text;
    return *this;
  }
  GoBytes& align() {
    while (text_.size() % 8 != 0) text_.push_back('\0');
    return *this;
  }
  [[nodiscard]] std::uint64_t size() const { return text_.size(); }
  [[nodiscard]] const std::string& str() const { return text_; }

 private:
  template <class T>
  void put(T value) {
    text_.append(reinterpret_cast<const char*>(&value), sizeof value);
  }
  std::string text_;
};

// Offsets of the names in what makes them.
constexpr std::uint32_t kOuter = 1;
constexpr std::uint32_t kMiddle = 12;
constexpr std::uint32_t kInner = 24;

std::string names() { return std::string("\0main.outer\0main.middle\0main.inner\0\0\0\0\0\0", 40); }

struct TablesByPc {
  std::string bytes;
  std::uint32_t files = 0;  // offsets of the tables
  std::uint32_t lines = 0;
  std::uint32_t calls = 0;
};

std::uint32_t size_of_function(const GoTableMaker& maker) { return 0x30 + maker.inner_bytes; }

// Pairs of a zig-zag change (2n: +n; 2n - 1: -n) and of a length.
TablesByPc tables_by_pc(const GoTableMaker& maker) {
  GoBytes bytes;
  TablesByPc tables;
  const auto start = [&bytes] { return static_cast<std::uint32_t>(bytes.size()); };
  bytes.u8({0});
  tables.files = start();
  bytes.u8({2}).varint(size_of_function(maker)).u8({0});  // file 0
  tables.calls = start();                                 // -1, 0, 1, -1
  bytes.u8({0, 0x10, 2, 0x10, 2}).varint(maker.inner_bytes).u8({3, 0x10, 0});
  tables.lines = start();  // 10, 20, 30, 40
  for (std::uint32_t i = 0; i < maker.padded_pairs; ++i) {
    bytes.u8({i % 2 == 0 ? 0x82U : 0x81U, 0x80, 0x80, 0x80, 0});
    bytes.u8({0x80, 0x80, 0x80, 0x80, 0});
  }
  bytes.u8({22, 0x10, 20, 0x10, 20}).varint(maker.inner_bytes).u8({20, 0x10, 0});
  tables.bytes = bytes.align().str();
  return tables;
}

std::string tree(const GoTableMaker& maker) {
  GoBytes bytes;
  if (maker.layout == Layout::kGo120) {
    bytes.u32({0, kMiddle, 0x08, 7, 0, kInner, maker.inner_call, 5});
  } else {
    // parent and kind, file, line, name, call
    bytes.u32({0xffff, 0, 10, kMiddle, 0x08, 0, 0, 20, kInner, maker.inner_call});
  }
  return bytes.align().str();
}

// struct _func and its arrays; `tree_address` is where the tree is.
std::string function(const GoTableMaker& maker, std::uint64_t tree_address) {
  constexpr std::uint32_t kNone = 0xffffffff;
  GoBytes bytes;
  if (maker.layout == Layout::kGo116) {
    bytes.u64({GoTableMaker::kEntry});
  } else {
    bytes.u32({GoTableMaker::kEntry - kText});
  }
  const TablesByPc tables = tables_by_pc(maker);
  bytes.u32({kOuter, 0, 0, 0, tables.files, tables.lines, 3, 0});
  if (maker.layout == Layout::kGo120) bytes.u32({3});
  bytes.u8({0, 0, 0, 4});
  bytes.u32({0, 0, tables.calls});
  if (maker.layout == Layout::kGo116) return bytes.align().u64({0, 0, 0, tree_address}).str();
  return bytes.u32({kNone, kNone, kNone, 0}).align().str();
}

// struct moduledata; the tree is the first of go:func.*.
std::string module(const GoTableMaker& maker, std::uint64_t tree_address) {
  const std::uint64_t header = maker.layout == Layout::kGo116 ? 64 : 72;
  GoBytes bytes;
  bytes.u64({kStart, kStart + header});
  while (bytes.size() < 22 * 8) bytes.u64({0});
  bytes.u64({kText});
  while (bytes.size() < (maker.layout == Layout::kGo118 ? 38U : 40U) * 8) bytes.u64({0});
  return bytes.u64({tree_address, 0, 0}).str();
}

}  // namespace

std::string GoTableMaker::make() const {
  const bool is_wide = layout == Layout::kGo116;
  const std::uint64_t header = is_wide ? 64 : 72;
  const std::string files = std::string("/src/a.go\0\0\0\0\0\0\0", 16);
  const std::uint64_t units_at = header + names().size();
  const std::uint64_t files_at = units_at + 8;
  const std::uint64_t values_at = files_at + files.size();
  const std::string values = tables_by_pc(*this).bytes;
  const std::uint64_t entries_at = values_at + values.size();
  const std::uint64_t function_at = entries_at + (is_wide ? 40 : 24);
  const std::uint64_t tree_at = function_at + function(*this, 0).size();
  const auto end = static_cast<std::uint32_t>(kEntry - kText + size_of_function(*this));
  GoBytes table;
  table.u8({is_wide                    ? 0xfaU
            : layout == Layout::kGo118 ? 0xf0U
                                       : 0xf1U,
            0xff, 0xff, 0xff, 0, 0, 1, 8});
  table.u64({function_count, 1});
  // Since Go 1.26 the start of the text is in moduledata alone.
  if (!is_wide) table.u64({layout == Layout::kGo118 ? kText : 0});
  table.u64({header, units_at, files_at, values_at, entries_at});
  table.bytes(names()).u32({0, 0}).bytes(files).bytes(values);
  if (is_wide) {
    table.u64({kEntry, function_offset + 16, kEntry + size_of_function(*this), 0, 0});
  } else {
    table.u32({kEntry - kText, function_offset, end, 0, 0, 0});
  }
  table.bytes(function(*this, kStart + tree_at)).bytes(tree(*this));
  if (has_module) table.bytes(module(*this, kStart + tree_at));

  Elf64_Ehdr elf{};
  std::memcpy(elf.e_ident, ELFMAG "\2\1\1", 7);
  elf.e_type = ET_EXEC;
  elf.e_machine = EM_X86_64;
  elf.e_phoff = sizeof elf;
  elf.e_phentsize = sizeof(Elf64_Phdr);
  elf.e_phnum = 1;
  Elf64_Phdr segment{};
  segment.p_type = PT_LOAD;
  segment.p_flags = PF_R | PF_W;
  segment.p_offset = kStart;
  segment.p_vaddr = kStart;
  segment.p_filesz = segment.p_memsz = table.size();
  std::string file(kStart, '\0');
  std::memcpy(file.data(), &elf, sizeof elf);
  std::memcpy(file.data() + sizeof elf, &segment, sizeof segment);
  return file + table.str();
}

}  // namespace profd::test
