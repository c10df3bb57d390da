#include "daemon/profiles/interpreted_code.h"

#include <algorithm>
#include <cstddef>
#include <limits>
#include <span>
#include <utility>

#include "collectors/bpf/sample.h"
#include "daemon/profiles/file_hits.h"
#include "daemon/profiles/jit_image_part.h"
#include "daemon/samples/stack_table.h"
#include "formats/base/utf8_text.h"
#include "formats/interpreters/runtime.h"
#include "formats/jit/runtimes.h"

namespace profd {
namespace {

constexpr std::uint32_t kOverShareNumber = 0;  // of InterpretedCodes
constexpr std::uint64_t kBytesOfUnit = 2;
constexpr std::string_view kTrampoline = "py::";
constexpr std::string_view kUnknownObject = "[interpreted]";

// A function with more bytecode has a section of its own in the image (formats/jit/image.cc). A
// process chooses what its code objects say, so few may have.
constexpr std::uint64_t kLargeBytes = 16'384;
constexpr std::size_t kMaxLarge = 1024;

constexpr std::uint64_t kMaxLineOffset = std::numeric_limits<std::uint32_t>::max();  // of an image

// The numbers that the stacks of a process have, each once, in the order of their first stack.
std::vector<std::uint32_t> numbers_of(
    const ProcessSnapshot& process, boost::unordered_flat_map<std::uint32_t, std::size_t>& index) {
  std::vector<std::uint32_t> numbers;
  const StackTable& table = process.samples.stacks;
  for (const StackTable::Stack& stack : table.stacks()) {
    for (const std::uint64_t word : table.user_frames(stack)) {
      if (!InterpretedFrame::is(word)) continue;
      const std::uint32_t number = InterpretedFrame::from_word(word).code;
      if (index.try_emplace(number, numbers.size()).second) numbers.push_back(number);
    }
  }
  return numbers;
}

InterpretedFunctions::Function unnamed_function(std::uint32_t number) {
  InterpretedFunctions::Function function;
  function.code.name = number == kOverShareNumber ? kCodeOverShare : kUnnamedCode;
  return function;
}

InterpretedFunctions::Function announced_function(const RawCode& raw) {
  InterpretedFunctions::Function function;
  function.address = raw.address;
  function.bytes = kBytesOfUnit * std::max<std::uint64_t>(raw.units, 1);
  function.start_line = raw.first_line;
  function.kind = raw.kind;
  function.code.name = kUnnamedCode;
  return function;
}

// PHP's frames have their line for a position.
bool has_line_positions(const InterpretedFunctions::Function& function) {
  return function.kind == PROFD_RUNTIME_PHP;
}

// Where positions are lines, functions have no bytecode that counts: the image gives a line as many
// bytes as Python's units have.
std::uint32_t unit_of(const InterpretedFunctions::Function& function, std::uint32_t position) {
  if (!has_line_positions(function)) return position;
  return position - std::min(position, function.start_line);
}

// Sorted, each unit once, and kMaxInterpretedLines of them at most.
void put_in_order(std::vector<InterpretedLine>& lines) {
  std::ranges::sort(lines, [](const InterpretedLine& a, const InterpretedLine& b) {
    return std::pair(a.position, a.line) < std::pair(b.position, b.line);
  });
  const auto have_one_unit = [](const InterpretedLine& a, const InterpretedLine& b) {
    return a.position == b.position;
  };
  lines.erase(std::unique(lines.begin(), lines.end(), have_one_unit), lines.end());
  if (lines.size() > kMaxInterpretedLines) lines.resize(kMaxInterpretedLines);
}

// In no order: stacks have as many frames as their process likes, and each place in a sorted list
// would move those behind it.
void add_line(std::uint32_t line, InterpretedFunctions::Function& function) {
  std::vector<InterpretedLine>& lines = function.code.lines;
  lines.push_back({.position = unit_of(function, line), .line = line});
  if (lines.size() == 2 * kMaxInterpretedLines) put_in_order(lines);
}

void end_lines(InterpretedFunctions::Function& function) {
  std::vector<InterpretedLine>& lines = function.code.lines;
  put_in_order(lines);
  if (lines.empty()) return;
  const std::uint64_t units = std::uint64_t{lines.back().position} + 1;
  function.bytes = std::max(function.bytes, kBytesOfUnit * units);
}

void set_code(InterpretedFunctions::Function& function, DecodedCode&& decoded) {
  if (decoded.name.empty()) return;
  function.code.name = printable_utf8(decoded.name, kMaxPrintableBytes);
  function.code.file = printable_utf8(decoded.file, kMaxPrintableBytes);
  function.code.lines = std::move(decoded.lines);
  function.has_name = true;
}

void bound_large(std::vector<InterpretedFunctions::Function>& functions) {
  std::size_t large = 0;
  for (InterpretedFunctions::Function& function : functions) {
    if (function.bytes > kLargeBytes && ++large > kMaxLarge) function.bytes = kLargeBytes;
  }
}

// Whether its first unit has a line.
bool has_start(const InterpretedFunctions::Function& function) {
  const std::vector<InterpretedLine>& lines = function.code.lines;
  return !lines.empty() && lines.front().position == 0 && lines.front().line != 0;
}

// The file of a code object in an image: readers cut what stands in angle brackets, so that
// "<frozen runpy>" has braces there.
char in_image(char c) {
  if (c == '<') return '{';
  return c == '>' ? '}' : c;
}

// "[python]"; empty: no such runtime.
std::string object_of_kind(std::uint8_t kind) {
  const std::string_view name = name_of_runtime(kind);
  return name.empty() ? std::string() : "[" + runtime_label(name) + "]";
}

}  // namespace

bool is_interpreted_object(std::string_view object) {
  for (unsigned kind = PROFD_RUNTIME_NONE + 1; kind < PROFD_RUNTIME_KIND_COUNT; ++kind) {
    if (object == object_of_kind(static_cast<std::uint8_t>(kind))) return true;
  }
  return object == kUnknownObject;
}

std::string interpreted_symbol(std::string_view name, std::uint64_t address) {
  if (name == kUnnamedCode || name == kCodeOverShare) return std::string(name);
  return jit_symbol(name, address);
}

InterpretedFunctions::InterpretedFunctions(Parser& parser, const ProcessSnapshot& process) {
  const std::vector<std::uint32_t> numbers = numbers_of(process, index_);
  const InterpretedTable* const table = process.interpreted.get();
  if (numbers.empty()) return;
  if (table != nullptr) {
    runtime_ = runtime_label(name_of_runtime(static_cast<std::uint8_t>(table->kind())));
  }
  std::vector<RawCode> announced;
  std::vector<std::size_t> places;  // of these in functions_
  functions_.reserve(numbers.size());
  for (const std::uint32_t number : numbers) {
    const KeptCode* const code = table == nullptr ? nullptr : table->find(number);
    if (code == nullptr) {
      functions_.push_back(unnamed_function(number));
      continue;
    }
    announced.push_back(code->raw());
    places.push_back(functions_.size());
    functions_.push_back(announced_function(announced.back()));
  }
  bound_large(functions_);
  if (announced.empty()) return;
  Result<DecodedCodes> decoded = parser.decode_code(uid_of(process) == 0, announced);
  if (!decoded || decoded->size() != announced.size()) return;
  for (std::size_t i = 0; i < places.size(); ++i) {
    set_code(functions_[places[i]], std::move((*decoded)[i]));
  }
  if (!std::ranges::any_of(functions_, has_line_positions)) return;
  add_lines_of_frames(process);
  bound_large(functions_);
}

void InterpretedFunctions::add_lines_of_frames(const ProcessSnapshot& process) {
  const StackTable& table = process.samples.stacks;
  for (const StackTable::Stack& stack : table.stacks()) {
    for (const std::uint64_t word : table.user_frames(stack)) {
      if (!InterpretedFrame::is(word)) continue;
      const InterpretedFrame frame = InterpretedFrame::from_word(word);
      Function& function = functions_[index_of(frame.code)];
      const bool has_line = has_line_positions(function) && frame.position != 0 &&
                            frame.position != InterpretedFrame::kNoPosition;
      if (has_line) add_line(frame.position, function);
    }
  }
  for (Function& function : functions_) {
    if (has_line_positions(function)) end_lines(function);
  }
}

std::uint32_t InterpretedFunctions::line_of(std::size_t index, std::uint32_t position) const {
  const Function& function = functions_[index];
  if (function.code.lines.empty()) return function.start_line;
  if (position != InterpretedFrame::kNoPosition) {
    return line_at(function.code, unit_of(function, position));
  }
  return has_start(function) ? function.code.lines.front().line : function.start_line;
}

std::string InterpretedFunctions::object_of(std::size_t index) const {
  std::string own = object_of_kind(functions_[index].kind);
  if (!own.empty()) return own;
  return runtime_.empty() ? std::string(kUnknownObject) : "[" + runtime_ + "]";
}

JitImageFunction image_function(const InterpretedFunctions::Function& function,
                                std::uint32_t file) {
  JitImageFunction made{.address = function.address,
                        .bytes = function.bytes,
                        .name = interpreted_symbol(function.code.name, function.address),
                        .code = {},
                        .lines = {}};
  if (function.code.file.empty()) return made;
  made.lines.reserve(function.code.lines.size() + 1);
  const bool is_started = has_start(function);
  // The entry that the function is declared by.
  if (!is_started) made.lines.push_back({.line = function.start_line, .file = file});
  for (const InterpretedLine& line : function.code.lines) {
    const std::uint64_t offset = kBytesOfUnit * line.position;
    if (offset >= function.bytes || offset > kMaxLineOffset) break;
    if (offset == 0 && !is_started) continue;
    made.lines.push_back(
        {.code_offset = static_cast<std::uint32_t>(offset), .line = line.line, .file = file});
  }
  return made;
}

std::uint64_t image_pc(const InterpretedFunctions::Function& function, std::uint32_t position) {
  if (position == InterpretedFrame::kNoPosition) return function.address;
  const std::uint64_t last = function.bytes - kBytesOfUnit;
  return function.address + std::min(kBytesOfUnit * unit_of(function, position), last);
}

std::string image_file(std::string_view file) {
  std::string shown(file);
  std::ranges::transform(shown, shown.begin(), in_image);
  return shown;
}

bool called_segment(std::span<const std::uint64_t> words, std::size_t index) {
  return index >= 2 && InterpretedFrame::is(words[index - 2]) &&
         !InterpretedFrame::is(words[index - 1]) && !InterpretedFrame::is(words[index]);
}

bool is_trampoline_of(const InterpretedFunctions::Function& function, std::string_view jit_name) {
  if (!function.has_name || !jit_name.starts_with(kTrampoline)) return false;
  return jit_name.substr(kTrampoline.size()) == function.code.name + ":" + function.code.file;
}

// The entry frame of a segment is its outermost one, right before the loop.
bool InterpretedFunctions::is_repeated_by(std::span<const std::uint64_t> words, std::size_t index,
                                          std::string_view jit_name) const {
  if (!called_segment(words, index)) return false;
  const InterpretedFrame entry = InterpretedFrame::from_word(words[index - 2]);
  return is_trampoline_of(functions_[index_of(entry.code)], jit_name);
}

}  // namespace profd
