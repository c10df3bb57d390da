#include "formats/unwind/cfi_functions.h"

#include <algorithm>
#include <limits>
#include <utility>

namespace profd {
namespace {

constexpr std::size_t kCieSlots = 256;

// 16 bytes each. The largest file seen, a browser, has 0.6 million.
constexpr std::size_t kMaxFunctions = std::size_t{1} << 20;

constexpr std::uint64_t end_of(const CfiFunction& function) {
  return std::uint64_t{function.offset} + function.bytes;
}

}  // namespace

CfiSource::CfiSource(CfiSection section) : section_(std::move(section)), slots_(kCieSlots) {}

const CfiSource::Cie* CfiSource::cie_at(std::uint64_t position) {
  Slot& slot = slots_[position / 4 % kCieSlots];
  if (slot.position != position) {
    slot.position = position;
    slot.cie.reset();
    const auto entry = read_cfi_entry(section_, position);
    const auto cie = entry ? read_cie(section_, *entry) : std::nullopt;
    if (cie) slot.cie = Cie{*cie, CfiProgram::initial_state(*cie)};
  }
  return slot.cie ? &*slot.cie : nullptr;
}

void CfiFunctions::add(CfiSection section, const CodeSegments& code) {
  sources_.push_back(std::make_unique<CfiSource>(std::move(section)));
  std::vector<CfiFunction> functions = list(*sources_.back(), code);
  separate(functions);
  if (functions_.empty()) {
    functions_ = std::move(functions);
  } else {
    fill_gaps(functions);
  }
}

std::vector<CfiFunction> CfiFunctions::list(CfiSource& source, const CodeSegments& code) {
  std::vector<CfiFunction> functions;
  CfiEntries entries(source.section());
  while (const auto entry = entries.next()) {
    if (entry->is_cie) continue;
    if (functions.size() >= kMaxFunctions) {
      count(losses_, CfiLoss::kOverLimit);
      return functions;
    }
    if (const auto function = place(source, *entry, code)) functions.push_back(*function);
  }
  if (entries.is_malformed()) count(losses_, CfiLoss::kMalformed);
  return functions;
}

// None for an FDE that is empty, malformed, or outside the code. Linkers leave FDEs of functions
// that they dropped at address 0, which is the ELF header.
std::optional<CfiFunction> CfiFunctions::place(CfiSource& source, const CfiEntry& entry,
                                               const CodeSegments& code) {
  const CfiSource::Cie* cie = source.cie_at(entry.cie_position);
  const auto fde = cie == nullptr ? std::nullopt : read_fde(source.section(), entry, cie->cie);
  if (!fde) {
    count(losses_, CfiLoss::kMalformed);
    return std::nullopt;
  }
  if (fde->bytes == 0 || cie->cie.is_go) return std::nullopt;
  const CodeSegment* segment = fde->start == 0 ? nullptr : code.segment_of(fde->start);
  if (segment == nullptr) {
    count(losses_, CfiLoss::kOutsideCode);
    return std::nullopt;
  }
  const std::uint64_t skipped = fde->start - segment->vaddr;
  const std::uint64_t bytes = std::min(fde->bytes, segment->bytes - skipped);
  if (bytes != fde->bytes) count(losses_, CfiLoss::kOutsideCode);
  constexpr std::uint64_t kMaxBytes = std::numeric_limits<std::uint32_t>::max();
  return CfiFunction{.offset = static_cast<std::uint32_t>(segment->offset + skipped),
                     .bytes = static_cast<std::uint32_t>(std::min(bytes, kMaxBytes)),
                     .position = static_cast<std::uint32_t>(entry.position),
                     .source = static_cast<std::uint32_t>(sources_.size() - 1)};
}

void CfiFunctions::separate(std::vector<CfiFunction>& functions) {
  const auto in_order = [](const CfiFunction& a, const CfiFunction& b) {
    return std::pair(a.offset, a.position) < std::pair(b.offset, b.position);
  };
  if (!std::ranges::is_sorted(functions, in_order)) std::ranges::sort(functions, in_order);
  std::size_t kept = 0;
  for (const CfiFunction& function : functions) {
    if (kept > 0 && functions[kept - 1].offset == function.offset) {
      count(losses_, CfiLoss::kOverlap);
      continue;
    }
    if (kept > 0 && end_of(functions[kept - 1]) > function.offset) {
      count(losses_, CfiLoss::kOverlap);
      functions[kept - 1].bytes = function.offset - functions[kept - 1].offset;
    }
    functions[kept++] = function;
  }
  functions.resize(kept);
}

// Adds the functions that begin at an address without an FDE, and cuts them at the next FDE.
void CfiFunctions::fill_gaps(const std::vector<CfiFunction>& functions) {
  std::vector<CfiFunction> merged;
  merged.reserve(functions_.size() + functions.size());
  auto known = functions_.cbegin();
  for (CfiFunction function : functions) {
    while (known != functions_.cend() && known->offset <= function.offset) {
      merged.push_back(*known++);
    }
    if (!merged.empty() && end_of(merged.back()) > function.offset) continue;
    if (known != functions_.cend()) {
      function.bytes = std::min(function.bytes, known->offset - function.offset);
    }
    merged.push_back(function);
  }
  merged.insert(merged.end(), known, functions_.cend());
  functions_ = std::move(merged);
}

}  // namespace profd
