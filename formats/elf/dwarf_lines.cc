#include "formats/elf/dwarf_lines.h"

#include <bit>

#include "formats/base/utf8_text.h"

namespace profd {
namespace {

static_assert(std::endian::native == std::endian::little,
              "numbers are appended as they are in memory");

// DWARF 4, 7.5.4, 7.5.6 and 7.12.
enum : std::uint8_t {
  kTagCompileUnit = 0x11,
  kTagInlinedSubroutine = 0x1d,
  kTagSubprogram = 0x2e,
  kAtName = 0x03,
  kAtStmtList = 0x10,
  kAtLowPc = 0x11,
  kAtHighPc = 0x12,
  kAtLanguage = 0x13,
  kAtCompDir = 0x1b,
  kAtInline = 0x20,
  kAtAbstractOrigin = 0x31,
  kAtDeclFile = 0x3a,
  kAtDeclLine = 0x3b,
  kAtCallFile = 0x58,
  kAtCallLine = 0x59,
  kFormAddr = 0x01,
  kFormData2 = 0x05,
  kFormData8 = 0x07,
  kFormString = 0x08,
  kFormData1 = 0x0b,
  kFormUdata = 0x0f,
  kFormRef4 = 0x13,
  kFormSecOffset = 0x17,
};
constexpr std::uint16_t kLanguageC = 0x0002;
constexpr std::uint16_t kVersion = 4;
constexpr std::uint8_t kInlined = 1;  // of kAtInline
constexpr std::uint8_t kUnitCode = 1;
constexpr std::uint8_t kSubprogramCode = 2;
constexpr std::uint8_t kParentCode = 3;  // a subprogram with inlined functions
constexpr std::uint8_t kAbstractCode = 4;
constexpr std::uint8_t kInlinedCode = 5;
constexpr std::uint8_t kEndOfChildren = 0;

// DWARF 4, 7.21.
enum : std::uint8_t {
  kExtended = 0,
  kCopy = 1,
  kAdvancePc = 2,
  kAdvanceLine = 3,
  kSetFile = 4,
  kSetColumn = 5,
  kEndSequence = 1,
  kSetAddress = 2,
};
// Special opcodes advance the line by -5 to 8, and the address by up to 17: the choice of GCC.
constexpr std::int64_t kLineBase = -5;
constexpr std::int64_t kLineRange = 14;
constexpr std::int64_t kOpcodeBase = 13;
constexpr std::string_view kOpcodeLengths("\0\1\1\1\1\0\0\0\1\0\0\1", kOpcodeBase - 1);

template <class T>
void put(std::string& out, T value) {
  out.append(reinterpret_cast<const char*>(&value), sizeof value);
}

void put_byte(std::string& out, std::uint8_t value) { out.push_back(static_cast<char>(value)); }

void put_uleb(std::string& out, std::uint64_t value) {
  for (; value >= 0x80; value >>= 7) put_byte(out, static_cast<std::uint8_t>(value | 0x80));
  put_byte(out, static_cast<std::uint8_t>(value));
}

void put_sleb(std::string& out, std::int64_t value) {
  for (; value < -0x40 || value >= 0x40; value >>= 7)
    put_byte(out, static_cast<std::uint8_t>(value | 0x80));
  put_byte(out, static_cast<std::uint8_t>(value & 0x7f));
}

void put_string(std::string& out, std::string_view text) {
  out.append(printable_utf8(text.substr(0, text.find('\0')), kMaxPrintableBytes)).push_back('\0');
}

// A unit is preceded by its length.
std::string with_length(const std::string& unit) {
  std::string out;
  put(out, static_cast<std::uint32_t>(unit.size()));
  return out + unit;
}

std::string abbreviations() {
  std::string out;
  const auto pairs = [&](std::initializer_list<std::uint8_t> bytes) {
    for (const std::uint8_t byte : bytes) put_byte(out, byte);
    out.append(2, '\0');
  };
  pairs({kUnitCode, kTagCompileUnit, /* has children */ 1,  //
         kAtLanguage, kFormData2, kAtName, kFormString,     //
         kAtCompDir, kFormString, kAtStmtList, kFormSecOffset, kAtLowPc, kFormAddr, kAtHighPc,
         kFormData8});
  const auto subprogram = [&](std::uint8_t code, std::uint8_t has_children) {
    pairs({code, kTagSubprogram, has_children, kAtName, kFormString, kAtLowPc, kFormAddr,  //
           kAtHighPc, kFormData8, kAtDeclFile, kFormUdata, kAtDeclLine, kFormUdata});
  };
  subprogram(kSubprogramCode, 0);
  subprogram(kParentCode, 1);
  pairs({kAbstractCode, kTagSubprogram, /* has none */ 0,  //
         kAtName, kFormString, kAtInline, kFormData1});
  pairs({kInlinedCode, kTagInlinedSubroutine, /* has children */ 1,  //
         kAtAbstractOrigin, kFormRef4, kAtLowPc, kFormAddr,          //
         kAtHighPc, kFormData8, kAtCallFile, kFormUdata, kAtCallLine, kFormUdata});
  put_byte(out, 0);
  return out;
}

}  // namespace

// The range of the unit comes last, in finish().
DwarfLinesWriter::DwarfLinesWriter(std::string_view name, std::string_view directory) {
  put(unit_, kVersion);
  put(unit_, std::uint32_t{0});  // offset of the abbreviations
  put_byte(unit_, sizeof(std::uint64_t));
  put_uleb(unit_, kUnitCode);
  put(unit_, kLanguageC);
  put_string(unit_, name);
  put_string(unit_, directory);
  put(unit_, std::uint32_t{0});  // offset of the line program
}

std::uint32_t DwarfLinesWriter::add_file(std::string_view name) {
  put_string(file_table_, name.empty() ? "?" : name);
  file_table_.append(3, '\0');  // directory, time, length: unknown
  return ++files_;
}

void DwarfLinesWriter::begin_function(std::string_view name, std::uint64_t address,
                                      std::uint64_t bytes, std::uint32_t file, std::uint32_t line) {
  subprogram_ = subprograms_.size();
  put_byte(subprograms_, kSubprogramCode);
  put_string(subprograms_, name);
  put(subprograms_, address);
  put(subprograms_, bytes);
  put_uleb(subprograms_, file);
  put_uleb(subprograms_, line);
  put_byte(rows_, kExtended);
  put_uleb(rows_, 1 + sizeof address);
  put_byte(rows_, kSetAddress);
  put(rows_, address);
  address_ = address;
  function_end_ = address + bytes;
  file_ = 1;
  line_ = 1;
  column_ = 0;
  add_line(address, file, line, 0);
}

void DwarfLinesWriter::add_line(std::uint64_t address, std::uint32_t file, std::uint32_t line,
                                std::uint32_t column) {
  if (file != file_) {
    put_byte(rows_, kSetFile);
    put_uleb(rows_, file);
  }
  if (column != column_) {
    put_byte(rows_, kSetColumn);
    put_uleb(rows_, column);
  }
  const std::uint64_t ahead = address - address_;
  const std::int64_t down = std::int64_t{line} - line_;
  const bool near = down >= kLineBase && down < kLineBase + kLineRange && ahead <= 16;
  const std::int64_t special =
      near ? down - kLineBase + kLineRange * static_cast<std::int64_t>(ahead) + kOpcodeBase : 256;
  if (special <= 255) {
    put_byte(rows_, static_cast<std::uint8_t>(special));
  } else {
    put_byte(rows_, kAdvancePc);
    put_uleb(rows_, ahead);
    put_byte(rows_, kAdvanceLine);
    put_sleb(rows_, down);
    put_byte(rows_, kCopy);
  }
  address_ = address;
  file_ = file;
  line_ = line;
  column_ = column;
}

// An offset counts from the length of the unit on.
std::uint32_t DwarfLinesWriter::abstract_of(std::string_view name) {
  const auto known = abstract_offsets_.find(name);
  if (known != abstract_offsets_.end()) return known->second;
  constexpr std::size_t kRangeBytes = 2 * sizeof(std::uint64_t);
  const auto offset = static_cast<std::uint32_t>(sizeof(std::uint32_t) + unit_.size() +
                                                 kRangeBytes + abstracts_.size());
  put_byte(abstracts_, kAbstractCode);
  put_string(abstracts_, name);
  put_byte(abstracts_, kInlined);
  abstract_offsets_.emplace(name, offset);
  return offset;
}

void DwarfLinesWriter::begin_inlined(std::string_view name, std::uint64_t address,
                                     std::uint64_t bytes, std::uint32_t call_file,
                                     std::uint32_t call_line) {
  subprograms_[subprogram_] = kParentCode;
  put_byte(subprograms_, kInlinedCode);
  put(subprograms_, abstract_of(name));
  put(subprograms_, address);
  put(subprograms_, bytes);
  put_uleb(subprograms_, call_file);
  put_uleb(subprograms_, call_line);
}

void DwarfLinesWriter::end_inlined() { put_byte(subprograms_, kEndOfChildren); }

void DwarfLinesWriter::end_function() {
  if (subprograms_[subprogram_] == kParentCode) put_byte(subprograms_, kEndOfChildren);
  put_byte(rows_, kAdvancePc);
  put_uleb(rows_, function_end_ - address_);
  put_byte(rows_, kExtended);
  put_uleb(rows_, 1);
  put_byte(rows_, kEndSequence);
}

DwarfSections DwarfLinesWriter::finish(std::uint64_t start, std::uint64_t end) {
  put(unit_, start);
  put(unit_, end - start);
  unit_.append(abstracts_).append(subprograms_);
  put_byte(unit_, kEndOfChildren);

  std::string header;
  put_byte(header, 1);  // minimum bytes of an instruction
  put_byte(header, 1);  // maximum operations in an instruction
  put_byte(header, 1);  // rows start statements by default
  put_byte(header, static_cast<std::uint8_t>(kLineBase));
  put_byte(header, static_cast<std::uint8_t>(kLineRange));
  put_byte(header, static_cast<std::uint8_t>(kOpcodeBase));
  header.append(kOpcodeLengths);
  put_byte(header, 0);  // no directories
  header.append(file_table_);
  put_byte(header, 0);
  std::string program;
  put(program, kVersion);
  program.append(with_length(header)).append(rows_);
  return {abbreviations(), with_length(unit_), with_length(program)};
}

}  // namespace profd
