#include "formats/unwind/uncovered_code.h"

#include <algorithm>
#include <array>
#include <cstring>
#include <optional>

#include "formats/unwind/go_code.h"

namespace profd {
namespace {

using namespace std::string_view_literals;

constexpr std::uint64_t kBlockBytes = std::uint64_t{256} << 10;
constexpr std::uint64_t kMaxBytes = std::uint64_t{256} << 20;
constexpr std::uint64_t kMaxPaddingBytes = 256;
constexpr std::uint64_t kSlotBytes = 16;
constexpr std::uint64_t kShortSlotBytes = 8;  // .plt.got
constexpr std::uint64_t kMaxEntryBytes = 128;
constexpr std::size_t kMaxPlts = 16;
constexpr std::size_t kMaxKnown = 65536;  // between two functions

// The offset of the struct sigcontext in the kernel's struct ucontext, which is at rsp in the
// restorer.
constexpr std::int32_t kSigcontextOffset = 40;
constexpr std::string_view kRestorerTail = "\x0f\0\0\0\x0f\x05"sv;  // $15; syscall
constexpr std::string_view kRestorerMov = "\x48\xc7\xc0"sv;         // mov $imm32, %rax

// rt0_go, mstart and abort of Go lie within so many bytes: 1 KiB in Go 1.19.
constexpr std::uint64_t kGoStartBytes = 8192;
constexpr std::size_t kMaxGoCandidates = 64;

profd_rule rsp_rule(std::int32_t offset) {
  profd_rule rule{};
  rule.kind = PROFD_RULE_REGISTER;
  rule.cfa_register = PROFD_DWARF_RSP;
  rule.cfa_offset = offset;
  rule.ra_saved = PROFD_SAVED_AT_CFA;
  rule.ra_offset = -8;
  return rule;
}

profd_rule plt_rule(std::int32_t threshold) {
  profd_rule rule = rsp_rule(8);
  rule.kind = PROFD_RULE_PLT;
  rule.cfa_add = threshold;
  return rule;
}

profd_rule signal_rule() {
  profd_rule rule{};
  rule.kind = PROFD_RULE_SIGNAL;
  rule.cfa_register = PROFD_DWARF_RSP;
  rule.cfa_offset = kSigcontextOffset;
  return rule;
}

profd_rule end_rule() {
  profd_rule rule{};
  rule.kind = PROFD_RULE_END;
  return rule;
}

// The length of a nop with a ModRM byte, which assemblers use for padding; 0: none.
std::size_t long_nop_bytes(std::string_view code) {
  constexpr auto kModRms = "\x00\x40\x44\x80\x84"sv;
  constexpr std::array<std::size_t, kModRms.size()> kLengths{3, 4, 5, 7, 8};
  if (!code.starts_with("\x0f\x1f"sv) || code.size() < 3) return 0;
  const std::size_t known = kModRms.find(code[2]);
  return known == kModRms.npos ? 0 : kLengths[known];
}

// The length of the padding instruction at the start of the code; 0: none.
std::size_t padding_bytes(std::string_view code) {
  if (code[0] == '\xcc' || code[0] == '\x90' || code[0] == '\0') return 1;
  std::size_t prefixes = 0;
  while (prefixes < code.size() && code[prefixes] == '\x66') ++prefixes;
  if (prefixes < code.size() && code[prefixes] == '\x2e') ++prefixes;
  const std::string_view rest = code.substr(prefixes);
  if (prefixes > 0 && rest.starts_with('\x90')) return prefixes + 1;
  const std::size_t bytes = long_nop_bytes(rest);
  return bytes == 0 || bytes > rest.size() ? 0 : prefixes + bytes;
}

// memmem(), because string_view's search is slow in code with many bytes like the first one.
std::size_t find_tail(std::string_view code, std::size_t from) {
  const void* found =
      ::memmem(code.data() + from, code.size() - from, kRestorerTail.data(), kRestorerTail.size());
  return found == nullptr ? std::string_view::npos
                          : static_cast<std::size_t>(static_cast<const char*>(found) - code.data());
}

// The start of the restorer's mov, whose operand begins at `tail`; npos: another instruction.
// mov $15, %eax is possible too, without a prefix that selects another register.
std::size_t find_mov(std::string_view code, std::size_t tail) {
  const std::string_view before = code.substr(0, tail);
  if (before.ends_with(kRestorerMov)) return tail - kRestorerMov.size();
  const bool prefixed = tail >= 2 && (code[tail - 2] & '\xf0') == '\x40';
  if (before.ends_with('\xb8') && !prefixed) return tail - 1;
  return std::string_view::npos;
}

bool begins_as_entry(std::string_view code) {
  if (code.starts_with("\xf3\x0f\x1e\xfa"sv)) code.remove_prefix(4);  // endbr64
  constexpr std::array kStarts = {
      "\x31\xed"sv,          // xor %ebp, %ebp
      "\x48\x31\xed"sv,      // xor %rbp, %rbp
      "\x48\x89\xe7\xe8"sv,  // mov %rsp, %rdi; call: the dynamic loader's
  };
  return std::ranges::any_of(kStarts, [&](std::string_view s) { return code.starts_with(s); });
}

// The length up to the end of the first call, and of a hlt behind it; 0: no call.
std::size_t entry_bytes(std::string_view code) {
  for (std::size_t i = 0; i + 6 < code.size(); ++i) {
    std::size_t end = 0;
    if (code[i] == '\xe8') end = i + 5;                         // call rel32
    if (code.substr(i).starts_with("\xff\x15"sv)) end = i + 6;  // call *rel32(%rip)
    if (end != 0) return code[end] == '\xf4' ? end + 1 : end;
  }
  return 0;
}

}  // namespace

UncoveredCode::UncoveredCode(const CodeFile& file)
    : file_(file),
      plts_(file.code_sections(".plt")),
      entry_(file.code().offset_of(file.header().e_entry).value_or(0)),
      is_go_(file.find_section(".gopclntab") != nullptr ||
             file.find_section(".data.rel.ro.gopclntab") != nullptr),
      bytes_left_(kMaxBytes) {
  plts_.resize(std::min(plts_.size(), kMaxPlts));
  for (const CodeSegment& segment : file.code().all()) code_end_ = segment.offset + segment.bytes;
}

// Bytes of the file, at most a block. Empty if they can't be read, or the limit is reached.
std::string_view UncoveredCode::view(std::uint64_t offset, std::uint64_t bytes) {
  const bool held = offset >= block_offset_ && offset - block_offset_ <= block_.size() &&
                    block_.size() - (offset - block_offset_) >= bytes;
  if (!held) {
    const std::uint64_t wanted = std::min({kBlockBytes, bytes_left_, code_end_ - offset});
    if (bytes > bytes_left_) over_limit_ = true;
    if (bytes > wanted) return {};
    bytes_left_ -= wanted;
    block_offset_ = offset;
    block_ = file_.read(offset, wanted);
    if (block_.empty()) return {};
  }
  return std::string_view(block_).substr(offset - block_offset_, bytes);
}

bool UncoveredCode::is_padding(std::uint64_t begin, std::uint64_t end) {
  if (end - begin > kMaxPaddingBytes) return false;
  std::string_view code = view(begin, end - begin);
  if (code.empty()) return false;
  while (!code.empty()) {
    const std::size_t bytes = padding_bytes(code);
    if (bytes == 0) return false;
    code.remove_prefix(bytes);
  }
  return true;
}

std::vector<UnwindRow> UncoveredCode::rows_of(std::uint64_t begin, std::uint64_t end) {
  if (begin >= end || is_padding(begin, end)) return {};
  known_.clear();
  find_restorers(begin, end);
  find_plt(begin, end);
  find_entry(begin, end);
  if (is_go_) find_go_ends(begin, end);
  std::ranges::sort(known_, {}, &Known::begin);
  std::vector<UnwindRow> rows{{begin, profd_rule{}}};
  std::uint64_t taken = begin;
  for (const Known& part : known_) {
    if (part.begin < taken) continue;
    rows.push_back({part.begin, part.rule});
    rows.push_back({part.end, profd_rule{}});
    taken = part.end;
  }
  if (rows.back().offset >= end) rows.pop_back();
  return rows;
}

// Merges adjacent parts with equal rules, such as the entries of a PLT.
void UncoveredCode::add(const Known& part) {
  const bool continues = !known_.empty() && known_.back().end == part.begin &&
                         std::memcmp(&known_.back().rule, &part.rule, sizeof part.rule) == 0;
  if (continues) {
    known_.back().end = part.end;
  } else if (known_.size() < kMaxKnown) {
    known_.push_back(part);
  } else {
    over_limit_ = true;
  }
}

void UncoveredCode::find_restorers(std::uint64_t begin, std::uint64_t end) {
  constexpr std::uint64_t kOverlap = 16;
  for (std::uint64_t at = begin; at < end; at += kBlockBytes - kOverlap) {
    const std::string_view code = view(at, std::min(kBlockBytes, end - at));
    if (code.empty()) return;
    for (std::size_t tail = find_tail(code, 0); tail != std::string_view::npos;
         tail = find_tail(code, tail + 1)) {
      const std::size_t mov = find_mov(code, tail);
      if (mov == std::string_view::npos) continue;
      const std::uint64_t first = std::max(begin, at + mov - (at + mov > begin ? 1 : 0));
      add({first, at + tail + kRestorerTail.size(), signal_rule()});
    }
  }
}

void UncoveredCode::find_go_ends(std::uint64_t begin, std::uint64_t end) {
  constexpr std::uint64_t kOverlap = 256;
  std::vector<std::uint64_t> candidates;
  std::uint64_t block = (begin + go::kCodeAlignment - 1) & ~(go::kCodeAlignment - 1);
  for (; block < end; block += kBlockBytes - kOverlap) {
    const std::string_view code = view(block, std::min(kBlockBytes, end - block));
    if (const auto clone = go::find_clone(code)) {
      add({block + clone->system_call, block + clone->child, rsp_rule(8)});
      add({block + clone->child, block + clone->end, end_rule()});
    }
    for (std::uint64_t at = 0; at + go::kGoexitBytes <= code.size(); at += go::kCodeAlignment) {
      const std::string_view function = code.substr(at, go::kGoexitBytes);
      if (go::is_goexit(function)) add({block + at, block + at + go::kGoexitBytes, end_rule()});
      const bool is_candidate =
          go::has_shape_of_mstart(function) && candidates.size() < kMaxGoCandidates;
      if (is_candidate) candidates.push_back(block + at);
    }
  }
  for (const std::uint64_t candidate : candidates) {
    const std::uint64_t first = candidate - std::min(candidate - begin, kGoStartBytes);
    const std::uint64_t last = std::min(end, candidate + kGoStartBytes);
    if (!go::is_mstart(view(first, last - first), candidate - first)) continue;
    return add({candidate, candidate + go::kMstartBytes, end_rule()});
  }
}

void UncoveredCode::find_plt(std::uint64_t begin, std::uint64_t end) {
  for (const Elf64_Shdr& plt : plts_) {
    const std::uint64_t slot = plt.sh_entsize == kShortSlotBytes ? kShortSlotBytes : kSlotBytes;
    if ((plt.sh_offset | plt.sh_addr) % slot != 0 || plt.sh_size > kMaxBytes) continue;
    const std::uint64_t plt_end = std::min(end, plt.sh_offset + plt.sh_size);
    const std::uint64_t first = (std::max(begin, plt.sh_offset) + slot - 1) & ~(slot - 1);
    for (std::uint64_t at = first; at < plt_end && plt_end - at >= slot; at += slot) {
      add_plt_slot(at, view(at, slot));
    }
  }
}

void UncoveredCode::add_plt_slot(std::uint64_t offset, std::string_view code) {
  const std::uint64_t end = offset + code.size();
  const bool is_short = code.size() < kSlotBytes;
  if (!is_short && code.starts_with("\xff\x35"sv)) {  // the first, with a word pushed: push; jmp
    add({offset, offset + 6, rsp_rule(16)});
    return add({offset + 6, end, rsp_rule(24)});
  }
  const bool has_endbr = code.starts_with("\xf3\x0f\x1e\xfa"sv);
  const auto rule = [&]() -> std::optional<profd_rule> {
    if (!is_short && code.starts_with("\xff\x25"sv) && code[6] == '\x68') return plt_rule(11);
    if (!is_short && has_endbr && code[4] == '\x68') return plt_rule(9);
    if (has_endbr) code.remove_prefix(4);
    if (code.starts_with('\xf2')) code.remove_prefix(1);  // bnd
    if (code.starts_with("\xff\x25"sv)) return rsp_rule(8);
    return std::nullopt;
  }();
  if (rule) add({offset, end, *rule});
}

// The entry function ends where the next one begins, or behind its first call, which doesn't
// return.
void UncoveredCode::find_entry(std::uint64_t begin, std::uint64_t end) {
  if (entry_ < begin || entry_ >= end || entry_ == 0) return;
  const std::string_view code = view(entry_, std::min(kMaxEntryBytes, end - entry_));
  if (!begins_as_entry(code)) return;
  const bool ends_here = end - entry_ <= kMaxEntryBytes;
  const std::uint64_t bytes = ends_here ? end - entry_ : entry_bytes(code);
  if (bytes > 0) add({entry_, entry_ + bytes, end_rule()});
}

}  // namespace profd
