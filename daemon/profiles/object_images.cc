#include "daemon/profiles/object_images.h"

#include <fcntl.h>
#include <linux/openat2.h>
#include <sys/stat.h>
#include <sys/sysmacros.h>

#include <algorithm>
#include <utility>

#include "collectors/files/vdso.h"
#include "collectors/host/clock.h"
#include "daemon/base/log.h"
#include "daemon/names/file_identity.h"
#include "daemon/profiles/object_symbols.h"
#include "daemon/storage/safe_name.h"
#include "formats/base/address_range.h"
#include "formats/base/utf8_text.h"
#include "formats/base/whole_file.h"
#include "formats/elf/image.h"
#include "formats/profile/gperftools_writer.h"

namespace profd {
namespace {

constexpr std::size_t kNameBytes = 100;

// The attributes of a file that change when it is replaced or written.
struct Identity {
  std::uint64_t device = 0;
  std::uint64_t inode = 0;
  std::uint64_t bytes = 0;
  std::int64_t ctime_ns = 0;

  friend bool operator==(const Identity&, const Identity&) = default;
};

Identity identity_of(const struct stat& status) {
  return {status.st_dev, status.st_ino, static_cast<std::uint64_t>(status.st_size),
          nanoseconds_of(status.st_ctim)};
}

// Users choose paths, and a server of FUSE may never answer, so no file system is asked: what is in
// use is in the kernel's caches. And O_PATH does not open the file itself, so neither a FIFO nor a
// lease can block it.
bool path_leads_to(const std::string& path, const Identity& file) {
  if (!path.starts_with('/')) return false;
  const UniqueFd there =
      open_resolved(AT_FDCWD, path, O_PATH | O_CLOEXEC,
                    RESOLVE_NO_SYMLINKS | RESOLVE_NO_MAGICLINKS | RESOLVE_CACHED);
  struct statx found {};
  if (!there.valid() || ::statx(there.get(), "", AT_EMPTY_PATH | AT_STATX_DONT_SYNC,
                                STATX_INO | STATX_SIZE | STATX_CTIME, &found) != 0) {
    return false;
  }
  constexpr std::int64_t kSecondNs = 1'000'000'000;
  return file == Identity{.device = ::gnu_dev_makedev(found.stx_dev_major, found.stx_dev_minor),
                          .inode = found.stx_ino,
                          .bytes = found.stx_size,
                          .ctime_ns = found.stx_ctime.tv_sec * kSecondNs + found.stx_ctime.tv_nsec};
}

// The number of open descriptors is limited, so the file's may be closed already. Then the file at
// the path must have the attributes that were read through the descriptor.
bool is_at_path(const MappedFile& file, const std::string& path) {
  if (path == file.path && file.deleted) return false;
  if (!file.fd.valid()) {
    return path_leads_to(
        path, {file.stat_device, file.stat_inode, file.key.size_bytes, file.stat_ctime_ns});
  }
  struct stat status {};
  if (::fstat(file.fd.get(), &status) != 0) return false;
  return still_has_its_bytes(file) && path_leads_to(path, identity_of(status));
}

// The names are as in the file, so that readers demangle them as they do with its symbols.
std::vector<ImageFrames> frames_of(const NameTable& names,
                                   const std::vector<std::uint64_t>& addresses) {
  std::vector<ImageFrames> known;
  for (const std::uint64_t address : addresses) {
    const NameTable::Entry* const entry = names.find(address);
    if (entry == nullptr || names.lines(*entry).empty()) continue;
    ImageFrames at{.address = address};
    for (const NameTable::Line& line : names.lines(*entry)) {
      CodeFrame frame = names.frame(line);
      const std::string& name = frame.system_name.empty() ? frame.name : frame.system_name;
      at.frames.push_back({.name = without_controls(name),
                           .file = without_controls(frame.file),
                           .line = frame.line});
    }
    known.push_back(std::move(at));
  }
  return known;
}

// Of a sorted list of addresses.
bool has_address_in(const std::vector<std::uint64_t>& addresses, const AddressRange& range) {
  const auto first = std::ranges::lower_bound(addresses, range.start);
  return first != addresses.end() && *first < range.end;
}

bool overlaps(const ElfSymbol& function, const AddressRange& range) {
  if (function.address >= range.start) return function.address < range.end;
  return range.start - function.address < function.bytes;
}

// Those parts of the loop of an interpreter that samples hit and no symbol has.
void add_loop(const ProfiledObject::Image& image, const std::vector<std::uint64_t>& hit,
              std::vector<ElfSymbol>& functions) {
  if (image.runtime == nullptr) return;
  for (const profd_loop_part& part : image.runtime->loop) {
    const Result<std::uint64_t> start = vaddr_of_offset(image.elf, part.start);
    if (part.bytes == 0 || !start) continue;
    const AddressRange range{*start, *start + part.bytes};
    const bool has_symbol = std::ranges::any_of(
        functions, [&range](const ElfSymbol& function) { return overlaps(function, range); });
    if (has_symbol || !has_address_in(hit, range)) continue;
    functions.push_back({.address = range.start,
                         .bytes = part.bytes,
                         .name = std::string(loop_name(image.runtime->kind))});
  }
  std::ranges::sort(functions, {}, &ElfSymbol::address);
}

}  // namespace

ProfiledObject& ObjectImages::named(const std::string& line_path) {
  return by_line_path_.try_emplace(line_path, line_path).first->second;
}

ProfiledObject& ObjectImages::with_image(const std::string& line_path,
                                         ProfiledObject::Image&& image) {
  return by_line_path_.try_emplace(line_path, line_path, std::move(image)).first->second;
}

ObjectImages::ObjectImages(Parser& parser, std::string kernel_release,
                           const std::map<FileKey, profd_runtime>* interpreters)
    : parser_(parser), kernel_release_(std::move(kernel_release)), interpreters_(interpreters) {}

const profd_runtime* ObjectImages::interpreter_in(const FileKey& file) const {
  if (interpreters_ == nullptr) return nullptr;
  const auto known = interpreters_->find(file);
  return known == interpreters_->end() ? nullptr : &known->second;
}

ProfiledObject& ObjectImages::find_or_add(const ProcessMapping& mapping, bool main_executable,
                                          std::uint32_t uid) {
  if (mapping.kind == PROFD_MAPPING_VDSO) return vdso();
  if (mapping.kind == PROFD_MAPPING_ANONYMOUS) return named("[anon]");
  if (!mapping.file) return named("[unreachable]");
  const MappedFile& file = *mapping.file;
  const std::string path(path_of(mapping));
  const bool was_opened = file.fd.valid() || file.stat_inode != 0;
  if (!was_opened) return named(bracketed_name(path));
  const auto [known, added] = at_its_path_.try_emplace({file.key, path}, false);
  if (added) known->second = is_at_path(file, path);
  const bool has_usable_path = known->second && readers_can_parse_path(path, main_executable);
  const profd_runtime* const runtime = interpreter_in(file.key);
  const bool has_divided_loop = runtime != nullptr && runtime->loop[1].bytes != 0;
  if (has_usable_path && !has_divided_loop) return named(path);
  // A program that its user may run but not read has no symbols for that user.
  if (file.fd.valid() && may_be_read_by(file, uid)) return image_of(mapping);
  return named(has_usable_path ? path : bracketed_name(path));
}

Result<void> ObjectImages::write(ResultWriter& result, std::uint64_t max_bytes,
                                 SymbolBudgets& symbols, NameCache& names) const {
  std::size_t without_symbols = 0;
  for (const auto& [line_path, object] : by_line_path_) {
    if (!object.has_image()) continue;
    Result<std::string> image = encode(object.image(), max_bytes, symbols, names);
    if (image && image->size() <= max_bytes) {
      max_bytes -= image->size();
    } else {
      image = encode_file_image({.original = object.image().elf, .name = {}, .functions = {}});
      ++without_symbols;
    }
    if (auto added = result.add(path_in_result(line_path), *image); !added) return added;
  }
  if (without_symbols != 0) {
    log::warn(
        "{} object images are written without symbols: over a limit, or the file can't be read",
        without_symbols);
  }
  return {};
}

// Without lines if they make the image too large.
Result<std::string> ObjectImages::encode(const ProfiledObject::Image& image,
                                         std::uint64_t max_bytes, SymbolBudgets& symbols,
                                         NameCache& names) const {
  const std::vector<std::uint64_t> hit(image.hit_addresses.begin(), image.hit_addresses.end());
  Result<std::vector<ElfSymbol>> functions = find_object_symbols(parser_, image, hit, symbols);
  if (!functions) return functions.error();
  add_loop(image, hit, *functions);
  FileImage file{.original = image.elf,
                 .name = plain_name(image.path),
                 .functions = std::move(*functions),
                 .frames = {}};
  if (!image.identity.empty()) file.frames = frames_of(names.names_of(image.identity), hit);
  std::string bytes = encode_file_image(file);
  if (bytes.size() <= max_bytes) return bytes;
  file.frames.clear();
  return encode_file_image(file);
}

ProfiledObject& ObjectImages::vdso() {
  const std::string path =
      line_path_of_image("vdso-" + safe_file_name(kernel_release_, kNameBytes));
  if (vdso_.valid()) return named(path);
  Result<UniqueFd> bytes = copy_own_vdso();
  if (!bytes) return named("[vdso]");
  Result<ElfSummary> elf = parser_.read_elf_summary(bytes->get());
  if (!elf) return named("[vdso]");
  vdso_ = std::move(*bytes);
  return with_image(path, {.fd = vdso_.get(), .elf = std::move(*elf)});
}

ProfiledObject& ObjectImages::image_of(const ProcessMapping& mapping) {
  const MappedFile& file = *mapping.file;
  const std::string shown(path_of(mapping));
  const std::pair key(file.key, shown);
  if (const auto found = images_.find(key); found != images_.end()) return *found->second;
  Result<ElfSummary> elf = parser_.read_elf_summary(file.fd.get());
  if (!elf || !still_has_its_bytes(file)) return named(bracketed_name(shown));
  std::string identity = file_identity(file, *elf);
  const std::string path = line_path_of_image(plain_name(shown) + "-" + identity);
  ProfiledObject& object = with_image(path, {.fd = file.fd.get(),
                                             .elf = std::move(*elf),
                                             .path = shown,
                                             .owner = file.owner,
                                             .identity = std::move(identity),
                                             .runtime = interpreter_in(file.key)});
  images_.emplace(key, &object);
  files_.push_back(mapping.file);
  return object;
}

}  // namespace profd
