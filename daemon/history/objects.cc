#include "daemon/history/objects.h"

namespace profd {

ProfiledObject& WindowObjects::find_or_add(const Mapping& mapping, bool) {
  if (mapping.kind == PROFD_MAPPING_VDSO) {
    const ObjectStore::Original* vdso = store_.vdso();
    return vdso == nullptr ? named("[vdso]")
                           : image_of(*vdso, {.fd = store_.vdso_fd(), .elf = vdso->elf});
  }
  if (mapping.kind == PROFD_MAPPING_ANONYMOUS) return named("[anon]");
  if (!mapping.file) return named("[unreachable]");
  const ObjectStore::Original* original = store_.find_or_read(*mapping.file);
  if (original == nullptr || !has_room_for(*original, mapping.file->owner)) {
    return named(bracketed_name(mapping.file->path));
  }
  files_.push_back(mapping.file);
  const bool whole = mapping.file->fd.valid() && still_has_its_bytes(*mapping.file);
  return image_of(*original, {.fd = whole ? mapping.file->fd.get() : -1,
                              .elf = original->elf,
                              .path = mapping.file->path,
                              .owner = mapping.file->owner});
}

Result<void> WindowObjects::write(SymbolBudgets& symbols,
                                  std::map<std::string, std::uint64_t>& bytes) {
  for (const auto& [name, object] : images_) {
    const Result<std::uint64_t> written = store_.update(name, object->image(), symbols);
    if (!written) return written.error();
    bytes[name] = *written;
  }
  return {};
}

ProfiledObject& WindowObjects::named(const std::string& line_path) {
  return by_line_path_.try_emplace(line_path, line_path).first->second;
}

// The files of root are not limited, since an unprivileged user can't add any.
bool WindowObjects::has_room_for(const ObjectStore::Original& original, std::uint32_t owner) {
  if (owner == 0 || images_.contains(original.name)) return true;
  return ++images_of_owner_[owner] <= kMaxImagesOfOwner;
}

ProfiledObject& WindowObjects::image_of(const ObjectStore::Original& original,
                                        const ProfiledObject::Image& image) {
  if (const auto found = images_.find(original.name); found != images_.end()) {
    return *found->second;
  }
  const std::string path = store_.path_of(original.name);
  ProfiledObject& object = by_line_path_.try_emplace(path, path, image).first->second;
  images_.emplace(original.name, &object);
  return object;
}

}  // namespace profd
