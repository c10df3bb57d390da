#include "collectors/symbolizer/dwarf_frames.h"

#include <dwarf.h>

#include <map>
#include <optional>
#include <utility>

#include <boost/unordered/unordered_flat_map.hpp>

#include "collectors/symbolizer/dwarf_budget.h"
#include "collectors/symbolizer/dwarf_file.h"
#include "collectors/symbolizer/dwarf_functions.h"
#include "collectors/symbolizer/dwarf_text.h"
#include "collectors/symbolizer/dwarf_units.h"
#include "collectors/symbolizer/line_table.h"
#include "formats/base/utf8_text.h"
#include "formats/symbols/demangle.h"

namespace profd {
namespace symbolizer {
namespace {

// More are not kept, so that their memory has a bound.
constexpr std::size_t kMaxPaths = 16'384;       // of a unit; a file beyond them is unknown
constexpr std::size_t kMaxShownNames = 16'384;  // of a request

struct FileLine {
  std::string_view file;  // empty: unknown
  std::uint32_t line = 0;
};

std::uint32_t as_line(Dwarf_Word value) {
  return value <= UINT32_MAX ? static_cast<std::uint32_t>(value) : 0;
}

std::uint32_t number_of(Dwarf_Attribute* attribute) {
  Dwarf_Word value = 0;
  return ::dwarf_formudata(attribute, &value) == 0 ? as_line(value) : 0;
}

// The lines of some addresses of a unit, and its source files.
class UnitLines {
 public:
  UnitLines(Dwarf_Die unit, std::span<const WantedAddress> addresses, const LineSections& sections,
            DwarfBudget& budget) {
    Dwarf_Attribute attribute{};
    Dwarf_Word offset = 0;
    if (::dwarf_formudata(::dwarf_attr(&unit, DW_AT_stmt_list, &attribute), &offset) == 0) {
      table_ = LineTable::read(sections, offset, budget);
    }
    if (table_) rows_ = table_->find_rows(addresses, budget);
    directory_ =
        cut_text(::dwarf_formstring(::dwarf_attr(&unit, DW_AT_comp_dir, &attribute))).value_or("");
  }

  [[nodiscard]] bool are_known() const { return table_.has_value(); }
  // Of the address with this position in the list. The view is valid as long as the unit's lines.
  FileLine at(std::size_t position) {
    if (!table_ || !rows_[position].is_known) return {};
    return {.file = path_of(rows_[position].file), .line = rows_[position].line};
  }
  // Where an inlined function is called.
  FileLine call_of(Dwarf_Die& inlined) {
    Dwarf_Attribute attribute{};
    const std::uint32_t line = number_of(::dwarf_attr(&inlined, DW_AT_call_line, &attribute));
    Dwarf_Word file = 0;
    if (!table_ ||
        ::dwarf_formudata(::dwarf_attr(&inlined, DW_AT_call_file, &attribute), &file) != 0) {
      return {.file = {}, .line = line};
    }
    return {.file = path_of(file), .line = line};
  }

 private:
  std::string_view path_of(std::uint64_t file) {
    if (paths_.size() >= kMaxPaths && !paths_.contains(file)) return {};
    const auto [found, is_new] = paths_.try_emplace(file);
    if (is_new) {
      found->second = printable_utf8(table_->path_of(file, directory_), kMaxCodeNameBytes);
    }
    return found->second;
  }

  std::optional<LineTable> table_;
  std::vector<LineRow> rows_;
  std::string_view directory_;
  std::map<std::uint64_t, std::string> paths_;  // by the number of the file
};

// Functions of a unit's skeleton are in another file (DWARF 5, 7.3.2; before that a GNU extension).
bool is_skeleton(Dwarf_Die unit) {
  return ::dwarf_hasattr(&unit, DW_AT_dwo_name) != 0 ||
         ::dwarf_hasattr(&unit, DW_AT_GNU_dwo_name) != 0;
}

// clang repeats the inlined functions in the skeleton, with their short names.
DwarfLoss loss_of_chain(const Dwarf_Die& unit, const FunctionChain& chain, bool has_lines) {
  if (is_skeleton(unit)) return DwarfLoss::kSplit;
  if (chain.functions.empty()) return DwarfLoss::kNoFunction;
  if (chain.is_cut) return DwarfLoss::kTooDeep;
  return has_lines ? DwarfLoss::kNone : DwarfLoss::kNoLines;
}

std::optional<std::string_view> linkage_name_of(Dwarf_Die& function) {
  Dwarf_Attribute attribute{};
  for (const unsigned name : {DW_AT_linkage_name, DW_AT_MIPS_linkage_name}) {
    const char* const text =
        ::dwarf_formstring(::dwarf_attr_integrate(&function, name, &attribute));
    if (text != nullptr) return cut_text(text);
  }
  return std::nullopt;
}

class FrameReader {
 public:
  FrameReader(std::span<const std::uint64_t> addresses, const DwarfLimits& limits)
      : addresses_(addresses),
        decompressed_bytes_(limits.decompressed_bytes),
        budget_(limits.cpu_time, limits.entries),
        room_(limits.answer_bytes) {
    for (const std::uint64_t address : addresses) answers_.emplace_back().names.address = address;
  }

  std::vector<DwarfAddress> run(const DwarfFiles& files) {
    if (auto file = DwarfFile::open(files, decompressed_bytes_)) {
      read(*file);
    } else {
      fail_all(file.error());
    }
    for (DwarfAddress& answer : answers_) {
      answer.names.source = source_of(answer.loss, !answer.names.frames.empty());
    }
    return std::move(answers_);
  }

 private:
  void fail_all(DwarfLoss loss) {
    for (DwarfAddress& answer : answers_) answer.loss = loss;
  }
  void read(const DwarfFile& file);
  void read_unit(const UnitAddresses& unit, const LineSections& sections);
  DwarfAddress read_address(const Dwarf_Die& unit, FunctionChain& chain, UnitLines& lines,
                            std::size_t position);
  bool read_frames(FunctionChain& chain, UnitLines& lines, FileLine line,
                   std::vector<CodeFrame>& frames);
  CodeFrame frame_of(Dwarf_Die& function, const FileLine& line);
  std::string shown_name_of(std::string_view linkage_name);
  void add(std::uint32_t index, DwarfAddress answer);

  std::span<const std::uint64_t> addresses_;
  std::uint64_t decompressed_bytes_;
  DwarfBudget budget_;
  std::size_t room_;
  std::vector<DwarfAddress> answers_;
  const ScopeNames* scopes_ = nullptr;                              // of the unit that is read
  boost::unordered_flat_map<std::string_view, std::string> shown_;  // by linkage name
};

void FrameReader::read(const DwarfFile& file) {
  std::vector<UnitAddresses> units;
  if (budget_.check_time()) units = find_units(file.get(), addresses_, budget_);
  // What no unit below answers.
  fail_all(budget_.is_spent() ? budget_.loss() : DwarfLoss::kNoUnit);
  const LineSections sections = file.line_sections();
  for (const UnitAddresses& unit : units) {
    if (budget_.check_time()) read_unit(unit, sections);
    if (!budget_.is_spent()) continue;
    // What is answered stays so.
    for (const WantedAddress& wanted : unit.addresses) {
      DwarfLoss& loss = answers_[wanted.index].loss;
      if (loss == DwarfLoss::kNoUnit) loss = budget_.loss();
    }
  }
}

void FrameReader::read_unit(const UnitAddresses& unit, const LineSections& sections) {
  UnitFunctions functions = find_functions(unit.unit, unit.addresses, budget_);
  if (!budget_.check_time()) return;
  scopes_ = &functions.scopes;
  UnitLines lines(unit.unit, unit.addresses, sections, budget_);
  for (std::size_t i = 0; i < unit.addresses.size() && budget_.take_step(); ++i) {
    DwarfAddress answer = read_address(unit.unit, functions.chains[i], lines, i);
    if (budget_.is_spent()) return;  // frames may be missing
    answer.names.address = unit.addresses[i].address;
    add(unit.addresses[i].index, std::move(answer));
  }
}

DwarfAddress FrameReader::read_address(const Dwarf_Die& unit, FunctionChain& chain,
                                       UnitLines& lines, std::size_t position) {
  DwarfAddress answer;
  answer.loss = loss_of_chain(unit, chain, lines.are_known());
  const FileLine line = lines.at(position);
  if (!read_frames(chain, lines, line, answer.names.frames)) {
    answer.loss = DwarfLoss::kNoName;
    answer.names.frames.clear();
  }
  if (answer.names.frames.empty() && !line.file.empty()) {
    answer.file = line.file;
    answer.line = line.line;
  }
  return answer;
}

// False where a function has no name. libdw searches all of an entry for an attribute, and the text
// in an entry may be as long as the file: so the time is checked for each frame.
bool FrameReader::read_frames(FunctionChain& chain, UnitLines& lines, FileLine line,
                              std::vector<CodeFrame>& frames) {
  while (!chain.functions.empty() && budget_.check_time()) {
    Dwarf_Die& function = chain.functions.back();
    frames.push_back(frame_of(function, line));
    if (frames.back().name.empty()) return false;
    line = lines.call_of(function);
    chain.functions.pop_back();
  }
  return true;
}

CodeFrame FrameReader::frame_of(Dwarf_Die& function, const FileLine& line) {
  CodeFrame frame;
  frame.line = line.line;
  frame.file = line.file;
  Dwarf_Attribute attribute{};
  frame.start_line = number_of(::dwarf_attr_integrate(&function, DW_AT_decl_line, &attribute));
  auto name = linkage_name_of(function);
  if (name) {
    frame.name = shown_name_of(*name);
  } else if (name = cut_text(::dwarf_diename(&function)); name) {
    frame.name =
        printable_utf8(std::string(scopes_->prefix_of(function)).append(*name), kMaxCodeNameBytes);
  }
  if (name) frame.system_name = printable_utf8(*name, kMaxCodeNameBytes);
  return frame;
}

// The same functions are inlined at many addresses.
std::string FrameReader::shown_name_of(std::string_view linkage_name) {
  if (shown_.size() >= kMaxShownNames && !shown_.contains(linkage_name)) {
    return shown_name(linkage_name);
  }
  const auto [found, is_new] = shown_.try_emplace(linkage_name);
  if (is_new) found->second = shown_name(linkage_name);
  return found->second;
}

void FrameReader::add(std::uint32_t index, DwarfAddress answer) {
  constexpr std::size_t kAddressBytes = 64;  // numbers and lengths, with room to spare
  constexpr std::size_t kFrameBytes = 32;
  std::size_t bytes = kAddressBytes + answer.file.size();
  for (const CodeFrame& frame : answer.names.frames) {
    bytes += kFrameBytes + frame.name.size() + frame.system_name.size() + frame.file.size();
  }
  if (bytes > room_) {
    answers_[index].loss = DwarfLoss::kAnswerBytes;
    return;
  }
  room_ -= bytes;
  answers_[index] = std::move(answer);
}

}  // namespace
}  // namespace symbolizer

NameSource source_of(DwarfLoss loss, bool has_frames) {
  if (has_frames) return NameSource::kDwarf;
  switch (loss) {
    case DwarfLoss::kNone:
    case DwarfLoss::kNoUnit:
    case DwarfLoss::kNoFunction:
    case DwarfLoss::kNoName:
    case DwarfLoss::kSplit:
    case DwarfLoss::kNoLines:
    case DwarfLoss::kTooDeep:
      return NameSource::kGap;
    case DwarfLoss::kNoDwarf:
      return NameSource::kNoSymbols;
    case DwarfLoss::kCpuTime:
    case DwarfLoss::kEntries:
    case DwarfLoss::kAnswerBytes:
    case DwarfLoss::kTooMany:
    case DwarfLoss::kTimeLimit:
    case DwarfLoss::kBusy:
      return NameSource::kOverBudget;
    default:
      return NameSource::kRefused;
  }
}

std::vector<DwarfAddress> find_dwarf_frames(const DwarfFiles& files,
                                            std::span<const std::uint64_t> addresses,
                                            const DwarfLimits& limits) {
  return symbolizer::FrameReader(addresses, limits).run(files);
}

}  // namespace profd
