#include "formats/proc/kallsyms.h"

#include <algorithm>
#include <cstring>
#include <limits>
#include <tuple>

#include "formats/base/errors.h"
#include "formats/base/text_fields.h"

namespace profd {
namespace {

// The limit for the size of a module's last function: kallsyms has no sizes, and an address between
// two modules belongs to neither. The largest functions of a kernel have a few tens of KiB.
constexpr std::uint64_t kMaxLastFunctionBytes = 65536;

// The padding before a function, for calls or for the checks of indirect calls: at most an
// alignment of 64 bytes.
constexpr std::uint64_t kMaxPaddingBytes = 64;

// Of the kernel, 512.
constexpr std::size_t kMaxNameBytes = std::numeric_limits<std::uint16_t>::max();

constexpr std::size_t kMaxModules = std::numeric_limits<std::uint16_t>::max();

constexpr std::string_view kCodeTypes = "tTwW";

struct Line {
  std::uint64_t address = 0;
  char type = 0;
  std::string_view name;
  std::string_view module;  // "[nf_tables]"; empty for the kernel itself

  [[nodiscard]] bool is_code() const { return kCodeTypes.find(type) != kCodeTypes.npos; }
};

// "ffffffff81000000 T _text" or "ffffffffc0000000 t init_once\t[fuse]".
bool parse_line(std::string_view text, Line& line) {
  TextFields fields(text);
  line.address = fields.hexadecimal();
  fields.expect(' ');
  const std::string_view type = fields.word();
  fields.expect(' ');
  line.name = fields.word();
  if (!fields.ok() || type.size() != 1) return false;
  line.type = type[0];
  line.module = {};
  if (!fields.rest().empty()) {
    fields.blanks();
    line.module = fields.word();
  }
  return fields.ok() && line.name.size() <= kMaxNameBytes;
}

// "__pfx_vfs_read": the padding before vfs_read. A name of the prefix alone is none of padding.
std::size_t padding_prefix_bytes(std::string_view name) {
  constexpr std::string_view kPrefixes[] = {"__pfx_", "__cfi_"};
  for (const std::string_view prefix : kPrefixes) {
    if (name.size() > prefix.size() && name.starts_with(prefix)) return prefix.size();
  }
  return 0;
}

bool is_padding(std::string_view name) { return padding_prefix_bytes(name) != 0; }

// "__sched_text_start", "_stext": symbols of the linker script, which share the address of a
// function or of the padding before one.
bool is_linker_symbol(std::string_view name) {
  return name.starts_with('_') && !is_padding(name) &&
         (name.ends_with("_start") || name.ends_with("_end") || name.ends_with("_begin") ||
          name.ends_with("text"));
}

// Orders names of one address: the most informative name has the smallest rank.
std::tuple<bool, bool, std::size_t> rank_of_name(std::string_view name) {
  const std::size_t underscores = std::min(name.find_first_not_of('_'), name.size());
  return {is_linker_symbol(name), is_padding(name), underscores};
}

// A symbol while the symbols are sorted. Its name has been moved to the front part of the text.
struct Candidate {
  std::uint64_t address = 0;
  std::uint32_t name_offset = 0;
  std::uint16_t name_bytes = 0;  // 0: no code; the symbol only ends the function before it
  std::uint16_t module = 0;
  bool global = false;

  [[nodiscard]] std::string_view name_in(std::string_view names) const {
    return names.substr(name_offset, name_bytes);
  }
};

// Moves the names to the front of `text`, over lines that are already read, and cuts off the rest.
// So the text, about 10 MB, is never in memory twice.
Result<std::vector<Candidate>> read_lines(std::string& text, std::vector<std::string>& modules) {
  std::vector<Candidate> candidates;
  std::size_t names_end = 0;
  modules.assign(1, {});  // the kernel itself
  std::size_t number = 0;
  Line line;
  for (std::size_t at = 0; at < text.size();) {
    const std::size_t end = std::min(text.find('\n', at), text.size());
    ++number;
    if (!parse_line(std::string_view(text).substr(at, end - at), line)) {
      return malformed("could not parse line " + std::to_string(number) + " of kallsyms");
    }
    at = end + 1;
    if (line.address == 0) continue;
    if (line.module != modules.back()) modules.emplace_back(line.module);
    if (modules.size() > kMaxModules) {
      return fail(ErrorCode::kTooLarge, "kallsyms has too many modules");
    }
    const std::size_t bytes = line.is_code() ? line.name.size() : 0;
    std::memmove(text.data() + names_end, line.name.data(), bytes);
    candidates.push_back({line.address, static_cast<std::uint32_t>(names_end),
                          static_cast<std::uint16_t>(bytes),
                          static_cast<std::uint16_t>(modules.size() - 1), line.type == 'T'});
    names_end += bytes;
  }
  text.resize(names_end);
  text.shrink_to_fit();
  return candidates;
}

// By address, and at one address the most informative name first. Equal symbols keep their order in
// the file.
void sort_by_address(std::vector<Candidate>& candidates, std::string_view names) {
  const auto rank = [&](const Candidate& c) {
    const std::string_view name = c.name_in(names);
    return std::tuple(name.empty(), rank_of_name(name), !c.global);
  };
  std::ranges::stable_sort(candidates, [&](const Candidate& a, const Candidate& b) {
    return a.address != b.address ? a.address < b.address : rank(a) < rank(b);
  });
}

// Makes the padding before a function a part of it. Where the symbol of the function is missing,
// the padding gets its name.
void join_padding(std::vector<Candidate>& candidates, std::string_view names) {
  std::size_t kept = 0;
  for (std::size_t i = 0; i < candidates.size(); ++i) {
    Candidate padding = candidates[i];
    const std::size_t prefix = padding_prefix_bytes(padding.name_in(names));
    Candidate* const next = i + 1 < candidates.size() ? &candidates[i + 1] : nullptr;
    const bool is_joined = prefix != 0 && next != nullptr && next->module == padding.module &&
                           next->address - padding.address <= kMaxPaddingBytes &&
                           next->name_bytes != 0 && !is_padding(next->name_in(names));
    if (is_joined) {
      next->address = padding.address;
      continue;
    }
    padding.name_offset += static_cast<std::uint32_t>(prefix);
    padding.name_bytes = static_cast<std::uint16_t>(padding.name_bytes - prefix);
    candidates[kept++] = padding;
  }
  candidates.resize(kept);
}

}  // namespace

Result<KernelSymbols> KernelSymbols::parse(std::string text) {
  if (text.size() > std::numeric_limits<std::uint32_t>::max()) {
    return fail(ErrorCode::kTooLarge, "kallsyms is larger than 4 GiB");
  }
  KernelSymbols symbols;
  Result<std::vector<Candidate>> candidates = read_lines(text, symbols.modules_);
  if (!candidates) return candidates.error();
  sort_by_address(*candidates, text);
  const auto has_same_address = [](const Candidate& a, const Candidate& b) {
    return a.address == b.address;
  };
  candidates->erase(std::unique(candidates->begin(), candidates->end(), has_same_address),
                    candidates->end());
  join_padding(*candidates, text);
  const Candidate* last = nullptr;
  for (const Candidate& next : *candidates) {
    if (last != nullptr && last->module != next.module)
      symbols.end_module(last->address, next.address);
    symbols.add(next.address, next.name_in(text), next.module);
    last = &next;
  }
  if (last != nullptr) symbols.end_module(last->address, std::numeric_limits<std::uint64_t>::max());
  symbols.names_.shrink_to_fit();
  symbols.entries_.shrink_to_fit();
  return symbols;
}

// An entry without a name only ends the function before it, and is left out where there is none.
void KernelSymbols::add(std::uint64_t address, std::string_view name, std::uint16_t module) {
  const bool ends_nothing = entries_.empty() || entries_.back().name_bytes == 0;
  if (name.empty() && ends_nothing) return;
  entries_.push_back({address, static_cast<std::uint32_t>(names_.size()),
                      static_cast<std::uint16_t>(name.size()), module});
  names_ += name;
  functions_ += name.empty() ? 0 : 1;
}

void KernelSymbols::end_module(std::uint64_t last_symbol, std::uint64_t next_module) {
  const std::uint64_t room = next_module - last_symbol;
  add(last_symbol + std::min(room, kMaxLastFunctionBytes), {}, 0);
}

std::optional<KernelSymbols::Symbol> KernelSymbols::find(std::uint64_t address) const {
  const auto next = std::ranges::upper_bound(entries_, address, {}, &Entry::address);
  if (next == entries_.begin() || next == entries_.end()) return std::nullopt;
  const Entry& entry = *std::prev(next);
  if (entry.name_bytes == 0) return std::nullopt;
  return Symbol{entry.address, next->address,
                std::string_view(names_).substr(entry.name_offset, entry.name_bytes),
                modules_[entry.module]};
}

}  // namespace profd
