#include "daemon/history/objects.h"

#include "daemon/names/file_identity.h"

namespace profd {

ProfiledObject& WindowObjects::find_or_add(const ProcessMapping& mapping, bool) {
  if (mapping.kind == PROFD_MAPPING_VDSO) {
    const ObjectStore::Original* vdso = store_.vdso();
    return vdso == nullptr
               ? named("[vdso]")
               : with_image(store_.path_of(vdso->name), {.fd = store_.vdso_fd(), .elf = vdso->elf});
  }
  if (mapping.kind == PROFD_MAPPING_ANONYMOUS) return named("[anon]");
  if (!mapping.file) return named("[unreachable]");
  const MappedFile& file = *mapping.file;
  const ObjectStore::Original* original = store_.find_or_read(file);
  if (original == nullptr) return named(bracketed_name(file.path));
  const std::string line_path = store_.path_of(original->name);
  if (!has_room_for(line_path, file.owner)) return named(bracketed_name(file.path));
  hold(mapping.file);
  const bool whole = file.fd.valid() && still_has_its_bytes(file);
  return with_image(line_path, {.fd = whole ? file.fd.get() : -1,
                                .elf = original->elf,
                                .path = file.path,
                                .owner = file.owner});
}

Result<void> WindowObjects::write(SymbolBudgets& symbols,
                                  std::map<std::string, std::uint64_t>& bytes) {
  for (const auto& [line_path, object] : by_line_path()) {
    if (!object.has_image()) continue;
    const std::string name = line_path.substr(line_path.rfind('/') + 1);
    const Result<std::uint64_t> written = store_.update(name, object.image(), symbols);
    if (!written) return written.error();
    bytes[name] = *written;
  }
  return {};
}

// The files of root are not limited, since an unprivileged user can't add any.
bool WindowObjects::has_room_for(const std::string& line_path, std::uint32_t owner) {
  if (owner == 0 || by_line_path().contains(line_path)) return true;
  return ++images_of_owner_[owner] <= kMaxImagesOfOwner;
}

}  // namespace profd
