#include "collectors/symbolizer/line_table.h"

#include <dwarf.h>

#include <algorithm>
#include <utility>

#include "formats/base/cursor.h"
#include "formats/elf/dwarf_cursor.h"

namespace profd::symbolizer {
namespace {

constexpr std::size_t kMaxPathBytes = 4096;
constexpr std::uint32_t kLongUnit = 0xffffffff;  // an 8-byte length follows: 64-bit DWARF

// The text up to a NUL. A longer one than a path is malformed, which also bounds the search.
std::optional<std::string_view> string_at(std::string_view section, std::uint64_t offset) {
  if (offset >= section.size()) return std::nullopt;
  const std::string_view text = section.substr(offset, kMaxPathBytes + 1);
  const std::size_t end = text.find('\0');
  if (end == text.npos) return std::nullopt;
  return text.substr(0, end);
}

}  // namespace

// Reads the header of a table.
class LineHeaderReader {
 public:
  LineHeaderReader(const LineSections& sections, std::string_view table, DwarfBudget& budget)
      : sections_(sections), bytes_(table), cursor_(table), budget_(budget) {}

  std::optional<LineTable> read() {
    LineTable table;
    const std::uint64_t length = read_length();
    const std::uint64_t end = cursor_.offset() + length;
    if (!cursor_.ok() || length > cursor_.remaining()) return std::nullopt;
    table.version_ = cursor_.read<std::uint16_t>();
    if (table.version_ < 2 || table.version_ > 5) return std::nullopt;
    if (table.version_ == 5) cursor_.read_bytes(2);  // size of addresses and of segment selectors
    const std::uint64_t header_bytes = read_offset();
    const std::uint64_t program = cursor_.offset() + header_bytes;
    if (header_bytes > length || program > end) return std::nullopt;
    table.program_ = bytes_.substr(program, end - program);
    read_numbers(table);
    if (table.version_ == 5) {
      read_entries(table.directories_);
      read_entries(table.files_);
    } else {
      read_old_names(table);
    }
    if (!cursor_.ok() || table.line_range_ == 0 || table.opcode_base_ == 0) return std::nullopt;
    return table;
  }

 private:
  struct Value {
    std::string_view text;
    std::uint64_t number = 0;
  };

  std::uint64_t read_length() {
    const auto length = cursor_.read<std::uint32_t>();
    is_long_ = length == kLongUnit;
    return is_long_ ? cursor_.read<std::uint64_t>() : length;
  }
  std::uint64_t read_offset() {
    return is_long_ ? cursor_.read<std::uint64_t>() : cursor_.read<std::uint32_t>();
  }
  std::string_view read_string() {
    const auto text = string_at(bytes_, cursor_.offset());
    if (!text) {
      dwarf::fail_cursor(cursor_);
      return {};
    }
    cursor_.read_bytes(text->size() + 1);
    return *text;
  }

  void read_numbers(LineTable& table) {
    table.instruction_bytes_ = cursor_.read<std::uint8_t>();
    if (table.version_ >= 4) cursor_.read_bytes(1);  // operations of an instruction: VLIW alone
    cursor_.read_bytes(1);                           // whether rows begin statements
    table.line_base_ = static_cast<std::int8_t>(cursor_.read<std::uint8_t>());
    table.line_range_ = cursor_.read<std::uint8_t>();
    table.opcode_base_ = cursor_.read<std::uint8_t>();
    table.operand_counts_ = cursor_.read_bytes(std::max<std::size_t>(table.opcode_base_, 1) - 1);
  }

  // Counts a value of an entry, whose text is up to kMaxPathBytes away. Fails the cursor.
  void take_value() {
    if (!budget_.take_step()) dwarf::fail_cursor(cursor_);
  }
  void add_entry(std::vector<LineTable::File>& entries, LineTable::File entry) {
    if (entries.size() < LineTable::kMaxEntries) {
      entries.push_back(entry);
    } else {
      dwarf::fail_cursor(cursor_);
    }
  }
  void read_old_names(LineTable& table);
  void read_entries(std::vector<LineTable::File>& entries);
  Value read_value(std::uint64_t form);

  const LineSections& sections_;
  std::string_view bytes_;
  Cursor cursor_;
  DwarfBudget& budget_;
  bool is_long_ = false;
};

// Directory 0 is where the unit was compiled, and there is no file 0.
void LineHeaderReader::read_old_names(LineTable& table) {
  table.directories_.emplace_back();
  table.files_.emplace_back();
  while (cursor_.ok()) {
    const std::string_view name = read_string();
    if (name.empty()) break;
    take_value();
    add_entry(table.directories_, {.name = name});
  }
  while (cursor_.ok()) {
    const std::string_view name = read_string();
    if (name.empty()) break;
    take_value();
    add_entry(table.files_, {.name = name, .directory = dwarf::read_uleb(cursor_)});
    dwarf::read_uleb(cursor_);  // time
    dwarf::read_uleb(cursor_);  // size
  }
}

void LineHeaderReader::read_entries(std::vector<LineTable::File>& entries) {
  struct Format {
    std::uint64_t content;
    std::uint64_t form;
  };
  std::vector<Format> formats;
  for (unsigned left = cursor_.read<std::uint8_t>(); left > 0; --left) {
    const std::uint64_t content = dwarf::read_uleb(cursor_);
    formats.push_back({.content = content, .form = dwarf::read_uleb(cursor_)});
  }
  const std::uint64_t count = dwarf::read_uleb(cursor_);
  // An entry has at least one byte, so a count that is not true ends with the bytes.
  if (formats.empty()) return;
  for (std::uint64_t i = 0; i < count && cursor_.ok(); ++i) {
    LineTable::File entry;
    for (const auto& [content, form] : formats) {
      take_value();
      const Value value = read_value(form);
      if (content == DW_LNCT_path) entry.name = value.text;
      if (content == DW_LNCT_directory_index) entry.directory = value.number;
    }
    add_entry(entries, entry);
  }
}

LineHeaderReader::Value LineHeaderReader::read_value(std::uint64_t form) {
  switch (form) {
    case DW_FORM_string:
      return {.text = read_string()};
    case DW_FORM_line_strp:
      return {.text = string_at(sections_.line_strings, read_offset()).value_or("")};
    case DW_FORM_strp:
      return {.text = string_at(sections_.strings, read_offset()).value_or("")};
    case DW_FORM_udata:
      return {.text = {}, .number = dwarf::read_uleb(cursor_)};
    case DW_FORM_data1:
      return {.text = {}, .number = cursor_.read<std::uint8_t>()};
    case DW_FORM_data2:
      return {.text = {}, .number = cursor_.read<std::uint16_t>()};
    case DW_FORM_data4:
      return {.text = {}, .number = cursor_.read<std::uint32_t>()};
    case DW_FORM_data8:
      return {.text = {}, .number = cursor_.read<std::uint64_t>()};
    case DW_FORM_data16:  // MD5
      cursor_.read_bytes(16);
      return {};
    case DW_FORM_block:
      cursor_.read_bytes(dwarf::read_uleb(cursor_));
      return {};
    default:
      dwarf::fail_cursor(cursor_);
      return {};
  }
}

// Runs the program of a table, whose rows are sequences of ascending addresses: each row holds up
// to the address of the next one.
class LineProgram {
 public:
  LineProgram(const LineTable& table, std::span<const WantedAddress> addresses)
      : table_(table), cursor_(table.program_), wanted_(addresses), found_(addresses.size()) {}

  std::vector<LineRow> run(DwarfBudget& budget) {
    for (std::uint64_t i = 1; cursor_.ok() && cursor_.remaining() > 0; ++i) {
      const auto opcode = cursor_.read<std::uint8_t>();
      if (opcode >= table_.opcode_base_) {
        run_special(static_cast<std::uint8_t>(opcode - table_.opcode_base_));
      } else if (opcode == 0) {
        run_extended();
      } else {
        run_standard(opcode);
      }
      constexpr std::uint64_t kOpcodesBetweenChecks = 4096;
      if (i % kOpcodesBetweenChecks == 0 && !budget.check_time()) break;
    }
    return std::move(found_);
  }

 private:
  struct Row {
    std::uint64_t address = 0;
    std::uint64_t file = 1;
    std::uint64_t line = 1;
  };

  void run_special(std::uint8_t adjusted) {
    advance(adjusted / table_.line_range_);
    row_.line +=
        static_cast<std::uint64_t>(std::int64_t{table_.line_base_} + adjusted % table_.line_range_);
    add_row();
  }
  void advance(std::uint64_t operations) { row_.address += operations * table_.instruction_bytes_; }
  void run_standard(std::uint8_t opcode);
  void run_extended();
  void add_row();
  void end_sequence();
  void answer_up_to(std::uint64_t end);

  const LineTable& table_;
  Cursor cursor_;
  std::span<const WantedAddress> wanted_;
  std::vector<LineRow> found_;
  Row row_;
  std::optional<Row> previous_;   // in the sequence
  bool is_of_discarded_ = false;  // the sequence is that of a function that was discarded
  std::uint64_t answered_up_to_ = 0;
  std::size_t next_ = 0;  // the first of the addresses from answered_up_to_ on
};

void LineProgram::run_standard(std::uint8_t opcode) {
  switch (opcode) {
    case DW_LNS_copy:
      return add_row();
    case DW_LNS_advance_pc:
      return advance(dwarf::read_uleb(cursor_));
    case DW_LNS_advance_line:
      row_.line += static_cast<std::uint64_t>(dwarf::read_sleb(cursor_));
      return;
    case DW_LNS_set_file:
      row_.file = dwarf::read_uleb(cursor_);
      return;
    case DW_LNS_const_add_pc:
      return advance((255U - table_.opcode_base_) / table_.line_range_);
    case DW_LNS_fixed_advance_pc:
      row_.address += cursor_.read<std::uint16_t>();
      return;
    default:
      for (auto left = static_cast<std::uint8_t>(table_.operand_counts_[opcode - 1U]); left > 0;
           --left) {
        dwarf::read_uleb(cursor_);
      }
  }
}

void LineProgram::run_extended() {
  const std::string_view content = cursor_.read_bytes(dwarf::read_uleb(cursor_));
  Cursor operands(content);
  switch (operands.read<std::uint8_t>()) {
    case DW_LNE_end_sequence:
      return end_sequence();
    case DW_LNE_set_address:
      row_.address = operands.read<std::uint64_t>();
      return;
    default:
      return;
  }
}

void LineProgram::add_row() {
  if (previous_) {
    answer_up_to(row_.address);
  } else {
    // Linkers leave the addresses of functions that they discard at 0 or 1.
    is_of_discarded_ = !is_of_code(row_.address, UINT64_MAX);
  }
  previous_ = row_;
}

void LineProgram::end_sequence() {
  if (previous_) answer_up_to(row_.address);
  previous_.reset();
  row_ = {};
}

// The addresses from the previous row to `end`.
void LineProgram::answer_up_to(std::uint64_t end) {
  const std::uint64_t start = previous_->address;
  if (end <= start || is_of_discarded_) return;
  if (start != answered_up_to_) {
    const auto first = std::ranges::lower_bound(wanted_, start, {}, &WantedAddress::address);
    next_ = static_cast<std::size_t>(first - wanted_.begin());
  }
  const bool is_line = previous_->line <= UINT32_MAX;
  for (; next_ < wanted_.size() && wanted_[next_].address < end; ++next_) {
    if (found_[next_].is_known) continue;
    found_[next_] = {.file = previous_->file,
                     .line = is_line ? static_cast<std::uint32_t>(previous_->line) : 0,
                     .is_known = true};
  }
  answered_up_to_ = end;
}

std::optional<LineTable> LineTable::read(const LineSections& sections, std::uint64_t offset,
                                         DwarfBudget& budget) {
  if (offset >= sections.lines.size()) return std::nullopt;
  return LineHeaderReader(sections, sections.lines.substr(offset), budget).read();
}

std::vector<LineRow> LineTable::find_rows(std::span<const WantedAddress> addresses,
                                          DwarfBudget& budget) const {
  return LineProgram(*this, addresses).run(budget);
}

std::string LineTable::path_of(std::uint64_t file, std::string_view directory) const {
  if (file >= files_.size() || files_[file].name.empty()) return {};
  const File& found = files_[file];
  if (found.name.starts_with('/')) return std::string(found.name);
  std::string path;
  const auto add = [&path](std::string_view part) {
    if (part.starts_with('/')) path.clear();
    path += part;
    if (!part.empty()) path += '/';
  };
  // Since DWARF 5 the first directory is where the unit was compiled.
  if (version_ < 5 || found.directory != 0) add(directory);
  if (found.directory < directories_.size()) add(directories_[found.directory].name);
  return path.append(found.name);
}

}  // namespace profd::symbolizer
