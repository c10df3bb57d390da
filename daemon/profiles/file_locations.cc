#include "daemon/profiles/file_locations.h"

#include <elf.h>

#include <algorithm>
#include <optional>
#include <utility>
#include <vector>

#include "collectors/files/debug_files.h"
#include "daemon/profiles/shown_text.h"

namespace profd {
namespace {

constexpr std::uint64_t kPageBytes = 4096;

// The first executable segment, so that a file is one mapping in all profiles.
PprofMapping mapping_of_code(const ElfSummary& elf) {
  const auto code = std::ranges::find_if(
      elf.segments, [](const ElfSegment& segment) { return (segment.flags & PF_X) != 0; });
  if (code == elf.segments.end()) return {};
  const std::uint64_t in_page = code->vaddr % kPageBytes;
  const std::uint64_t end = code->vaddr + code->memory_bytes;
  return {.start = code->vaddr - in_page,
          .limit = (end + kPageBytes - 1) / kPageBytes * kPageBytes,
          .file_offset = code->offset - code->offset % kPageBytes};
}

}  // namespace

std::uint32_t add_named_mapping(PprofProfile& profile, PprofMapping mapping,
                                const std::string& file, const std::string& build_id) {
  mapping.file = add_shown_text(profile, file);
  mapping.build_id = add_shown_text(profile, build_id);
  return profile.add_mapping(mapping);
}

FileLocations::FileLocations(NamedFile named, const std::string& path, PprofProfile& profile,
                             const profd_runtime* runtime)
    : named_(std::move(named)), runtime_(runtime) {
  const std::optional<ElfSummary>& elf = named_.elf;
  mapping_ = add_named_mapping(profile, elf ? mapping_of_code(*elf) : PprofMapping(), path,
                               elf ? to_hex(elf->build_id) : std::string());
}

NamedLocation FileLocations::at(std::uint64_t file_offset, PprofProfile& profile) {
  const auto [known, added] = locations_.try_emplace(file_offset);
  if (added) known->second = add(file_offset, profile);
  return known->second;
}

NamedLocation FileLocations::add(std::uint64_t file_offset, PprofProfile& profile) {
  const auto address = named_.address_of(file_offset);
  PprofLocation location{.address = address.value_or(0), .mapping = mapping_};
  const NameTable* const names = named_.names;
  const NameTable::Entry* entry = address && names != nullptr ? names->find(*address) : nullptr;
  if (entry == nullptr) return add_unnamed(file_offset, location, named_.missing, profile);
  if (names->lines(*entry).empty()) {
    return add_unnamed(file_offset, location, entry->source, profile);
  }
  location.is_folded = entry->is_folded;
  std::vector<PprofLine> lines;
  for (const NameTable::Line& line : names->lines(*entry)) {
    lines.push_back({.function = function_of(line.function, profile), .line = line.line});
  }
  return {profile.add_location(location, lines), entry->source};
}

// Compilers divide the loop of an interpreter, and leave its second part without a symbol.
NamedLocation FileLocations::add_unnamed(std::uint64_t file_offset, const PprofLocation& location,
                                         NameSource source, PprofProfile& profile) const {
  if (runtime_ == nullptr || !is_loop(*runtime_, file_offset)) {
    return {profile.add_location(location, {}), source};
  }
  const std::uint32_t name = profile.add_text(loop_name(runtime_->kind));
  const PprofLine line{.function = profile.add_function({.name = name, .system_name = name})};
  return {profile.add_location(location, {&line, 1}), NameSource::kInterpreted};
}

std::uint32_t FileLocations::function_of(std::uint32_t index, PprofProfile& profile) {
  const auto [known, added] = functions_.try_emplace(index);
  if (!added) return known->second;
  const NameTable& names = *named_.names;
  const NameTable::Function& function = names.function(index);
  known->second = profile.add_function(
      {.name = add_shown_text(profile, names.text(function.name)),
       .system_name = add_shown_text(profile, names.text(function.system_name)),
       .file = add_shown_text(profile, names.text(function.file)),
       .start_line = function.start_line});
  return known->second;
}

}  // namespace profd
