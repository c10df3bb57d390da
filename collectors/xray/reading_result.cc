#include "collectors/xray/reading_result.h"

#include <elf.h>

#include <algorithm>
#include <utility>
#include <vector>

#include "formats/elf/elf_file.h"
#include "formats/xray/profile.h"

namespace profd::xray {
namespace {

constexpr std::uint64_t kPageBytes = 4096;
constexpr std::uint64_t kUserEnd = std::uint64_t{1} << 47;

std::uint64_t page_of(std::uint64_t address) { return address & ~(kPageBytes - 1); }

// An app that lies about where it was loaded shifts its own profile, within what user space is.
Result<std::uint64_t> bias_of(const MeasuredProgram& program) {
  if (program.map.functions.empty()) return std::uint64_t{0};
  const std::uint64_t bias = program.first - program.map.functions.front().address;
  if (bias % kPageBytes == 0 && bias < kUserEnd) return bias;
  return fail(ErrorCode::kMalformed, "the app can't have been loaded where it says it was");
}

std::vector<ProfileMapping> mappings_of(const ElfSummary& elf, std::uint64_t bias) {
  std::vector<ProfileMapping> mappings;
  for (const ElfSegment& segment : elf.segments) {
    if ((segment.flags & PF_X) == 0 || segment.memory_bytes == 0) continue;
    const std::uint64_t start = bias + page_of(segment.vaddr);
    const std::uint64_t end = bias + page_of(segment.vaddr + segment.memory_bytes + kPageBytes - 1);
    if (start >= end || end > kUserEnd) continue;
    mappings.push_back({.start = start,
                        .end = end,
                        .file_offset = page_of(segment.offset),
                        .path = std::string(kProgramPath)});
  }
  return mappings;
}

}  // namespace

Result<void> check_place(const MeasuredProgram& program) {
  if (const auto bias = bias_of(program); !bias) return bias.error();
  return {};
}

Result<LiveResult> make_result(const Measured& measured, double ns_per_tick,
                               const MeasuredProgram& program, std::uint64_t max_frames) {
  const auto elf =
      program.program < 0 ? Result<ElfSummary>(ElfSummary()) : read_elf_summary(program.program);
  if (!elf) return elf.error();
  const auto bias = bias_of(program);
  if (!bias) return bias.error();
  const CodeMap code(std::vector<CodeMap::Object>{{.map = program.map, .bias = *bias}});
  Profiles profiles = make_profiles(measured.tree, ns_per_tick, code, {.max_frames = max_frames});
  std::vector<ProfileMapping> mappings = mappings_of(*elf, *bias);
  LiveResult result{.report = measured.report, .ns_per_tick = ns_per_tick};
  result.report.count(Issue::kCutStack, profiles.cut_stacks);
  if (!profiles.unknown.empty()) {
    UnknownImage image = make_unknown_image(profiles.unknown);
    image.mapping.path = kUnknownPath;
    mappings.push_back(std::move(image.mapping));
    result.unknown_image = std::move(image.bytes);
  }
  profiles.exclusive.mappings = mappings;
  profiles.calls.mappings = std::move(mappings);
  result.exclusive = std::move(profiles.exclusive);
  result.calls = std::move(profiles.calls);
  return result;
}

}  // namespace profd::xray
