#include "daemon/history/export_objects.h"

#include <fcntl.h>
#include <unistd.h>

#include <algorithm>
#include <string_view>

#include "daemon/base/log.h"
#include "daemon/history/files.h"
#include "daemon/history/jit_images.h"
#include "daemon/profiles/kernel_image.h"
#include "daemon/profiles/profiled_object.h"
#include "daemon/storage/file_io.h"
#include "formats/base/whole_file.h"
#include "formats/elf/image.h"

namespace profd {
namespace {

// A symbol that each image has at its end (formats/elf/image.cc). The symbols of gaps are kept,
// since they have the name of the file.
constexpr std::string_view kEndName = "_fini";

bool is_kernel(const ProfileMapping& mapping) {
  return unfold_kernel_address(mapping.start) != mapping.start;
}

// `last` is the mapping of the previous frame.
const ProfileMapping* find(const std::vector<ProfileMapping>& mappings, const ProfileMapping* last,
                           std::uint64_t address) {
  const auto has_address = [address](const ProfileMapping& mapping) {
    return address - mapping.start < mapping.end - mapping.start;
  };
  if (last != nullptr && has_address(*last)) return last;
  const auto found = std::ranges::find_if(mappings, has_address);
  return found == mappings.end() ? nullptr : &*found;
}

}  // namespace

void ExportObjects::pin(const std::string& name) {
  if (!is_object_name(name) || pinned_.contains(name)) return;
  const std::string path = objects_dir_ + "/" + name;
  if (::linkat(AT_FDCWD, path.c_str(), pins_.directory(), name.c_str(), 0) == 0)
    pinned_.insert(name);
}

void ExportObjects::adopt(Profile& profile) {
  note_hits(profile);
  for (ProfileMapping& mapping : profile.mappings) {
    mapping.path = line_path_of(mapping);
    if (mapping.path.starts_with(kBuildPrefix)) profile.build_dir.assign(1, '.');
  }
}

// Readers look up a caller one byte before its return address (gperftools_format.h).
void ExportObjects::note_hits(const Profile& profile) {
  std::vector<Object*> objects;
  for (const ProfileMapping& mapping : profile.mappings) objects.push_back(object_of(mapping));
  for (const Profile::Record& record : profile.records()) {
    const ProfileMapping* mapping = nullptr;
    const auto pcs = profile.pcs(record);
    for (std::size_t i = 0; i < pcs.size(); ++i) {
      const std::uint64_t address = pcs[i] - (i == 0 ? 0 : 1);
      mapping = find(profile.mappings, mapping, address);
      if (mapping == nullptr) continue;
      Object* const object = objects[static_cast<std::size_t>(mapping - profile.mappings.data())];
      if (object == nullptr) continue;
      const std::uint64_t offset = address - mapping->start + mapping->file_offset;
      object->hits.insert(object->is_kernel ? address : offset);
    }
  }
}

Result<bool> ExportObjects::write_next(ResultWriter& result, Parser& parser,
                                       std::uint64_t max_bytes) {
  if (std::exchange(has_hidden_kernel_, false)) {
    const KernelImage kernel = KernelImage::hidden();
    auto added = result.add(path_in_result(kernel.line_path()), kernel.encode());
    if (!added) return added.error();
    return true;
  }
  if (objects_.empty()) return false;
  const auto object = objects_.extract(objects_.begin());
  const Result<std::string> image =
      encode(object.key(), object.mapped(), parser, max_bytes - std::min(bytes_, max_bytes));
  if (!image) {
    log::warn("object {} is left out of an export: {}", object.key(), image.error().message);
    return true;
  }
  bytes_ += image->size();
  if (auto added = result.add("objects/" + object.key(), *image); !added) return added.error();
  return true;
}

// Empty: the mapping is not of an object in the store.
std::string ExportObjects::name_of(const ProfileMapping& mapping) const {
  const std::string prefix = objects_dir_ + "/";
  return mapping.path.starts_with(prefix) ? mapping.path.substr(prefix.size()) : std::string();
}

// Null: the mapping is not of a pinned object.
ExportObjects::Object* ExportObjects::object_of(const ProfileMapping& mapping) {
  const std::string name = name_of(mapping);
  if (!pinned_.contains(name)) return nullptr;
  Object& object = objects_[name];
  object.is_kernel = is_kernel(mapping);
  object.is_jit = is_window_jit_line(mapping);
  object.line = mapping;
  return &object;
}

std::string ExportObjects::line_path_of(const ProfileMapping& mapping) {
  if (mapping.path == KernelImage::hidden().line_path()) has_hidden_kernel_ = true;
  const std::string name = name_of(mapping);
  if (name.empty()) return mapping.path;
  if (!pinned_.contains(name)) return bracketed_name(mapping.path);
  return std::string(kBuildPrefix) + "objects/" + name;
}

Result<std::string> ExportObjects::encode(const std::string& name, const Object& object,
                                          Parser& parser, std::uint64_t room_bytes) {
  const UniqueFd fd(::openat(pins_.directory(), name.c_str(), O_RDONLY | O_NOFOLLOW | O_CLOEXEC));
  if (!fd.valid()) return fail_errno("could not open " + name);
  if (object.is_jit) return read_all(fd.get(), name);
  const Result<ElfSummary> elf = parser.read_elf_summary(fd.get());
  if (!elf) return elf.error();
  std::vector<std::uint64_t> addresses;
  for (const std::uint64_t hit : object.hits) {
    const auto address = object.is_kernel ? Result<std::uint64_t>(hit) : vaddr_of_offset(*elf, hit);
    if (address) addresses.push_back(*address);
  }
  std::ranges::sort(addresses);
  auto functions = parser.find_elf_symbols(fd.get(), addresses, symbols_);
  if (!functions) return functions.error();
  std::erase_if(*functions, [](const ElfSymbol& function) { return function.name == kEndName; });
  const auto encode_with = [&](std::vector<ElfSymbol> symbols) {
    if (!object.is_kernel) {
      return encode_file_image({.original = *elf, .name = {}, .functions = std::move(symbols)});
    }
    return encode_absolute_image({.functions = std::move(symbols),
                                  .build_id = elf->build_id,
                                  .text_start = object.line.start,
                                  .text_end = object.line.end});
  };
  std::string image = encode_with(std::move(*functions));
  return image.size() <= room_bytes ? image : encode_with({});
}

}  // namespace profd
