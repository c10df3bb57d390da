#include "formats/unwind/other_part.h"

#include <algorithm>
#include <functional>
#include <iterator>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "formats/unwind/cfi_entries.h"
#include "formats/unwind/cfi_functions.h"
#include "formats/unwind/jumps.h"

namespace profd {
namespace {

using namespace std::string_view_literals;

constexpr std::uint64_t kMaxFunctionOfParts = std::uint64_t{1} << 20;
constexpr std::size_t kMaxFrameBytes = std::size_t{24} << 20;  // of .eh_frame, as for rows
constexpr std::size_t kPltStartBytes = 16;

// The targets of the jumps out of the function that are in code, as sorted offsets in the file.
std::vector<std::uint64_t> targets_of(const CodeFile& file, std::string_view code,
                                      std::uint64_t vaddr) {
  std::vector<std::uint64_t> targets;
  for (const CodeJump& jump : find_jumps(code)) {
    if (jump.target >= 0 && static_cast<std::uint64_t>(jump.target) < code.size()) continue;
    const std::uint64_t target = vaddr + static_cast<std::uint64_t>(jump.target);
    if (const auto offset = file.code().offset_of(target)) targets.push_back(*offset);
  }
  std::ranges::sort(targets);
  return targets;
}

// One FDE may describe all slots of a PLT, to which functions jump too.
bool is_plt_code(const CodeFile& file, const CfiFunction& function) {
  const std::string bytes =
      file.read(function.offset, std::min<std::uint64_t>(function.bytes, kPltStartBytes));
  std::string_view code = bytes;
  if (code.starts_with("\xff\x35"sv) || code.starts_with("\xff\x25"sv)) return true;
  if (!code.starts_with("\xf3\x0f\x1e\xfa"sv)) return false;
  code.remove_prefix(4);  // endbr64
  return code.starts_with("\xff\x25"sv) || code.starts_with("\xf2\xff\x25"sv) ||
         code.starts_with('\x68');
}

struct HitFunction {
  unsigned hits = 0;
  CfiFunction function;
};

// The functions that are hit within, the most hit ones first.
std::vector<HitFunction> hit_functions(std::span<const CfiFunction> functions,
                                       const std::vector<std::uint64_t>& targets) {
  std::vector<HitFunction> hit;
  for (const std::uint64_t target : targets) {
    const auto after = std::ranges::upper_bound(
        functions, target, {}, [](const CfiFunction& f) { return std::uint64_t{f.offset}; });
    if (after == functions.begin()) continue;
    const CfiFunction& function = *std::prev(after);
    if (target == function.offset || target - function.offset >= function.bytes) continue;
    if (hit.empty() || hit.back().function.offset != function.offset) hit.push_back({0, function});
    ++hit.back().hits;
  }
  std::erase_if(hit, [](const HitFunction& found) { return found.hits < kMinHitsOfPart; });
  std::ranges::stable_sort(hit, std::greater<>(), &HitFunction::hits);
  return hit;
}

}  // namespace

FunctionPart find_other_part(const CodeFile& file, std::uint64_t vaddr, std::uint64_t bytes) {
  const auto start = file.code().offset_of(vaddr);
  if (!start || bytes == 0 || bytes > kMaxFunctionOfParts) return {};
  const std::string code = file.read(*start, bytes);
  if (code.empty()) return {};
  const std::vector<std::uint64_t> targets = targets_of(file, code, vaddr);
  if (targets.size() < kMinHitsOfPart) return {};
  auto section = read_eh_frame(file, kMaxFrameBytes);
  if (!section) return {};
  CfiFunctions functions;
  functions.add(std::move(*section), file.code());
  for (const HitFunction& found : hit_functions(functions.all(), targets)) {
    const CfiFunction& function = found.function;
    const std::uint64_t end = std::uint64_t{function.offset} + function.bytes;
    const bool is_its_own = function.offset < *start + bytes && end > *start;
    if (is_its_own || is_plt_code(file, function)) continue;
    return {.start = function.offset, .bytes = function.bytes};
  }
  return {};
}

}  // namespace profd
