#include "collectors/xray/live_result.h"

#include <elf.h>

#include <cmath>
#include <utility>
#include <vector>

#include "collectors/sandbox/wire.h"
#include "formats/elf/elf_file.h"
#include "formats/profile/gperftools_reader.h"
#include "formats/profile/gperftools_writer.h"

namespace profd::xray {
namespace {

Error invalid_result() {
  return fail(ErrorCode::kMalformed, "the result of the records is invalid");
}

constexpr std::uint64_t kPageBytes = 4096;
constexpr std::uint64_t kUserEnd = std::uint64_t{1} << 47;

std::uint64_t page_of(std::uint64_t address) { return address & ~(kPageBytes - 1); }

// An app that reports a wrong address shifts its own profile, within the addresses of user space.
Result<std::uint64_t> bias_of(const MeasuredProgram& program) {
  if (program.map.functions.empty()) return std::uint64_t{0};
  const std::uint64_t bias = program.first - program.map.functions.front().address;
  if (bias % kPageBytes == 0 && bias < kUserEnd) return bias;
  return fail(ErrorCode::kMalformed,
              "the program can't be loaded at the address that the app reports");
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

std::string encode(const LiveResult& result) {
  sandbox::Encoder encoder;
  encoder(result.report)(result.functions)(result.patched)(result.ns_per_tick);
  encoder(encode_gperftools(result.exclusive))(encode_gperftools(result.calls));
  encoder(result.unknown_image);
  return encoder.take();
}

Result<LiveResult> decode_live_result(std::string_view bytes) {
  sandbox::Decoder decoder(bytes);
  LiveResult result;
  std::string_view exclusive;
  std::string_view calls;
  decoder(result.report)(result.functions)(result.patched)(result.ns_per_tick)(exclusive)(calls);
  decoder(result.unknown_image);
  if (!decoder.is_complete() || !std::isfinite(result.ns_per_tick)) return invalid_result();
  auto first = decode_gperftools(exclusive);
  auto second = decode_gperftools(calls);
  if (!first || !second) return invalid_result();
  result.exclusive = std::move(*first);
  result.calls = std::move(*second);
  return result;
}

Result<void> check_address(const MeasuredProgram& program) {
  if (const auto bias = bias_of(program); !bias) return bias.error();
  return {};
}

Result<LiveResult> make_result(const Measured& measured, double ns_per_tick,
                               const MeasuredProgram& program, std::uint64_t max_frames) {
  const auto elf =
      program.file < 0 ? Result<ElfSummary>(ElfSummary()) : read_elf_summary(program.file);
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
