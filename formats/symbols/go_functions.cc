#include "formats/symbols/go_functions.h"

#include <algorithm>
#include <limits>
#include <utility>

#include "formats/base/cursor.h"
#include "formats/base/utf8_text.h"

namespace profd {
namespace {

using go::Layout;

constexpr std::uint64_t kPointerBytes = 8;
constexpr std::uint32_t kNone = std::numeric_limits<std::uint32_t>::max();
// Indexes of the arrays behind a function: internal/abi/symtab.go, PCDATA_InlTreeIndex and
// FUNCDATA_InlTree.
constexpr std::uint32_t kInlinedValues = 2;
constexpr std::uint32_t kInlineTree = 3;
constexpr std::uint32_t kMaxInlinedCalls = std::uint32_t{1} << 20;

// Numbers of 7 bits a byte, the lowest first.
class VarintReader {
 public:
  VarintReader(go::BlockReader& reader, std::uint64_t offset) : reader_(&reader), offset_(offset) {}

  // None at the end of the file, and for a number of more than 32 bits.
  std::optional<std::uint32_t> next() {
    std::uint64_t value = 0;
    for (unsigned shift = 0; shift <= 28; shift += 7) {
      const auto byte = reader_->number<std::uint8_t>(offset_++);
      if (!byte) return std::nullopt;
      value |= std::uint64_t{*byte & 0x7fU} << shift;
      if ((*byte & 0x80U) == 0) return static_cast<std::uint32_t>(value);
    }
    return std::nullopt;
  }
  [[nodiscard]] std::uint64_t offset() const { return offset_; }

 private:
  go::BlockReader* reader_;
  std::uint64_t offset_;
};

std::uint32_t zigzag(std::uint32_t value) { return (value >> 1) ^ (0U - (value & 1U)); }

}  // namespace

std::optional<GoFunctions> GoFunctions::open(const LimitedFile& file) {
  go::BlockReader reader(file);
  const auto table = go::find_table(file, reader);
  if (!table) return std::nullopt;
  return GoFunctions(file, std::move(reader), *table);
}

bool GoFunctions::use(std::uint64_t work) {
  work_left_ -= std::min(work, work_left_);
  unchecked_work_ += work;
  if (unchecked_work_ >= kWorkWithoutClock) {
    unchecked_work_ = 0;
    if (!file_.limits().have_time()) work_left_ = 0;
  }
  return work_left_ > 0;
}

std::optional<std::uint64_t> GoFunctions::entry_of(std::uint64_t index) {
  const std::uint64_t entries = table_.offset + table_.entries;
  if (table_.layout == Layout::kGo116) {
    return reader_.number<std::uint64_t>(entries + index * 2 * kPointerBytes);
  }
  const auto offset = reader_.number<std::uint32_t>(entries + index * kPointerBytes);
  return offset ? std::optional(table_.text_start + *offset) : std::nullopt;
}

// The entry behind the last function is the end of the code.
std::optional<std::uint64_t> GoFunctions::index_of(std::uint64_t address) {
  std::uint64_t low = 0;  // the entries up to here are not above the address
  std::uint64_t high = table_.functions;
  const auto first = entry_of(low);
  const auto end = entry_of(high);
  if (!first || !end || address < *first || address >= *end) return std::nullopt;
  while (high - low > 1) {
    const std::uint64_t middle = low + (high - low) / 2;
    const auto entry = entry_of(middle);
    if (!entry) return std::nullopt;
    (*entry <= address ? low : high) = middle;
  }
  return low;
}

std::optional<GoFunctions::Function> GoFunctions::function_at(std::uint64_t address) {
  const auto index = index_of(address);
  if (!index) return std::nullopt;
  const std::uint64_t entries = table_.offset + table_.entries;
  const bool is_wide = table_.layout == Layout::kGo116;
  const std::uint64_t at = entries + *index * (is_wide ? 2 * kPointerBytes : kPointerBytes);
  const std::uint64_t offset =
      is_wide ? reader_.number<std::uint64_t>(at + kPointerBytes).value_or(table_.bytes)
              : reader_.number<std::uint32_t>(at + sizeof(std::uint32_t)).value_or(kNone);
  if (offset >= table_.bytes - table_.entries) return std::nullopt;
  // struct _func of src/runtime/runtime2.go.
  const std::uint64_t start = entries + offset;
  const std::size_t bytes = table_.layout == Layout::kGo118 ? 40 : 44;
  Cursor cursor(reader_.bytes(start, bytes));
  Function function;
  function.entry =
      is_wide ? cursor.read<std::uint64_t>() : table_.text_start + cursor.read<std::uint32_t>();
  function.name = cursor.read<std::uint32_t>();
  (void)cursor.read_bytes(12);  // arguments, deferreturn, stack depths
  function.files = cursor.read<std::uint32_t>();
  function.lines = cursor.read<std::uint32_t>();
  const auto value_count = cursor.read<std::uint32_t>();
  function.unit = cursor.read<std::uint32_t>();
  if (table_.layout == Layout::kGo120) function.start_line = cursor.read<std::uint32_t>();
  (void)cursor.read_bytes(3);  // kind, flags, padding
  const auto data_count = cursor.read<std::uint8_t>();
  if (!cursor.ok()) return std::nullopt;
  read_arrays(function, start + bytes, value_count, data_count);
  return function;
}

// The arrays of tables by pc and of data follow the function.
void GoFunctions::read_arrays(Function& function, std::uint64_t offset, std::uint32_t value_count,
                              std::uint8_t data_count) {
  if (value_count <= kInlinedValues || data_count <= kInlineTree) return;
  const auto inlined = reader_.number<std::uint32_t>(offset + std::uint64_t{4} * kInlinedValues);
  const auto tree = tree_address(offset + std::uint64_t{value_count} * 4);
  const auto tree_offset = tree ? go::offset_of_address(file_.elf(), *tree) : std::nullopt;
  function.inlined = inlined.value_or(0);
  function.tree = tree_offset.value_or(0);
}

// `data` is the offset of the array of a function's data: addresses, since Go 1.18 offsets.
std::optional<std::uint64_t> GoFunctions::tree_address(std::uint64_t data) {
  if (table_.layout == Layout::kGo116) {
    const std::uint64_t over = (data - table_.offset + table_.address) % kPointerBytes;
    const std::uint64_t aligned = data + (over == 0 ? 0 : kPointerBytes - over);
    return reader_.number<std::uint64_t>(aligned + kInlineTree * kPointerBytes);
  }
  const auto offset = reader_.number<std::uint32_t>(data + std::uint64_t{4} * kInlineTree);
  if (!offset || *offset == kNone || table_.function_data == 0) return std::nullopt;
  return table_.function_data + *offset;
}

// A table by pc: pairs of a change of the value (which starts at -1) and of the pc up to which it
// holds. It ends with a change of 0 that is not the first. None: it does not reach the address.
std::optional<std::int32_t> GoFunctions::value_at(const Function& function, std::uint32_t table,
                                                  std::uint64_t address) {
  if (table == 0) return std::nullopt;
  VarintReader reader(reader_, table_.offset + table_.values + table);
  std::uint32_t value = kNone;
  std::uint64_t end = function.entry;
  for (bool is_first = true;; is_first = false) {
    const std::uint64_t start = reader.offset();
    const auto change = reader.next();
    if (!change || (*change == 0 && !is_first)) return std::nullopt;
    const auto bytes = reader.next();
    if (!bytes || !use(reader.offset() - start)) return std::nullopt;
    value += zigzag(*change);
    end += *bytes;
    if (address < end) return static_cast<std::int32_t>(value);
  }
}

// struct inlinedCall of src/runtime/symtab.go (before Go 1.20) and symtabinl.go.
std::optional<GoFunctions::InlinedCall> GoFunctions::inlined_call(const Function& function,
                                                                  std::uint32_t index) {
  if (function.tree == 0 || index >= kMaxInlinedCalls) return std::nullopt;
  const bool is_old = table_.layout != Layout::kGo120;
  const std::size_t bytes = is_old ? 20 : 16;
  Cursor cursor(reader_.bytes(function.tree + std::uint64_t{index} * bytes, bytes));
  (void)cursor.read_bytes(is_old ? 12 : 4);  // parent, kind, file and line; or kind
  InlinedCall call;
  call.name = cursor.read<std::uint32_t>();
  call.call_address = function.entry + cursor.read<std::uint32_t>();
  if (!is_old) call.start_line = cursor.read<std::uint32_t>();
  return cursor.ok() ? std::optional(call) : std::nullopt;
}

std::string GoFunctions::text_at(std::uint64_t part, std::uint32_t offset) {
  std::string text = reader_.text(table_.offset + part + offset);
  return use(text.size()) ? printable_utf8(text, kMaxCodeNameBytes) : std::string();
}

std::string GoFunctions::file_at(const Function& function, std::uint64_t address) {
  const auto index = value_at(function, function.files, address);
  if (!index || *index < 0) return {};
  const std::uint64_t unit = std::uint64_t{function.unit} + static_cast<std::uint32_t>(*index);
  const auto offset = reader_.number<std::uint32_t>(table_.offset + table_.units + unit * 4);
  return offset && *offset != kNone ? text_at(table_.files, *offset) : std::string();
}

// The file and the line of an address, without a name.
CodeFrame GoFunctions::frame_at(const Function& function, std::uint64_t address) {
  CodeFrame frame;
  const auto line = value_at(function, function.lines, address);
  if (!line || *line <= 0) return frame;
  frame.line = static_cast<std::uint32_t>(*line);
  frame.file = file_at(function, address);
  return frame;
}

void GoFunctions::set_name(CodeFrame& frame, std::uint32_t name, std::uint32_t start_line) {
  frame.name = text_at(table_.names, name);
  frame.system_name = frame.name;
  // Negative: unknown.
  const bool is_line = start_line <= std::uint32_t{std::numeric_limits<std::int32_t>::max()};
  frame.start_line = is_line ? start_line : 0;
}

std::vector<CodeFrame> GoFunctions::frames_at(std::uint64_t address) {
  std::vector<CodeFrame> frames;
  const auto function = function_at(address);
  // Between two functions is padding, which the lines do not contain.
  if (!function || (function->lines != 0 && !value_at(*function, function->lines, address))) {
    return frames;
  }
  bool has_lines = true;  // of the function itself
  auto index = value_at(*function, function->inlined, address);
  while (index && *index >= 0 && frames.size() + 1 < kMaxFramesOfAddress) {
    const auto call = inlined_call(*function, static_cast<std::uint32_t>(*index));
    has_lines = call.has_value();
    if (!call) break;
    frames.push_back(frame_at(*function, address));
    set_name(frames.back(), call->name, call->start_line);
    address = call->call_address;
    index = value_at(*function, function->inlined, address);
  }
  frames.push_back(has_lines ? frame_at(*function, address) : CodeFrame());
  set_name(frames.back(), function->name, function->start_line);
  const bool has_names = std::ranges::none_of(frames, &std::string::empty, &CodeFrame::name);
  return has_names && !is_exhausted() ? frames : std::vector<CodeFrame>();
}

}  // namespace profd
