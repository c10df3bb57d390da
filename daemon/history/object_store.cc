#include "daemon/history/object_store.h"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <utility>

#include "collectors/files/vdso.h"
#include "collectors/host/host_checks.h"
#include "daemon/base/log.h"
#include "daemon/names/file_identity.h"
#include "daemon/profiles/object_symbols.h"
#include "daemon/storage/file_io.h"
#include "daemon/storage/safe_name.h"
#include "formats/elf/image.h"

namespace profd {
namespace {

constexpr mode_t kFileMode = 0600;
constexpr std::size_t kReleaseBytes = 100;

// Limits of the cache, which takes about 10 MB.
constexpr std::size_t kMaxOriginals = 8192;
constexpr std::size_t kMaxCached = 200'000;

// Limit of failed look-ups of a file's symbols, each of which may take a second.
constexpr int kMaxFailures = 5;

// A larger image gets no more functions. Only a hostile file can make one that large.
constexpr std::uint64_t kMaxImageBytes = std::uint64_t{4} << 20;

// Removes the symbols that images have between and after their functions (formats/elf/image.h).
void drop_gap_symbols(std::vector<ElfSymbol>& functions, const ElfSummary& elf) {
  const auto is_code = [&elf](std::uint64_t address) {
    return std::ranges::any_of(elf.segments, [address](const ElfSegment& segment) {
      return address >= segment.vaddr && address - segment.vaddr < segment.memory_bytes;
    });
  };
  std::erase_if(functions, [&](const ElfSymbol& function) {
    return is_gap_name(function.name) || (!elf.segments.empty() && !is_code(function.address));
  });
}

// A function of unknown size ends behind its last hit address, since functions that were not looked
// up may lie between it and the next one.
void set_sizes(std::vector<ElfSymbol>& functions, const std::vector<std::uint64_t>& hit) {
  for (std::size_t i = 0; i < functions.size(); ++i) {
    if (functions[i].bytes != 0) continue;
    const auto next = i + 1 < functions.size()
                          ? std::ranges::lower_bound(hit, functions[i + 1].address)
                          : hit.end();
    if (next != hit.begin()) functions[i].bytes = *std::prev(next) - functions[i].address + 1;
  }
}

// Of two functions at one address the larger one is kept, since its size may come from hit
// addresses.
std::vector<ElfSymbol> join(std::vector<ElfSymbol> before, std::vector<ElfSymbol> added) {
  before.insert(before.end(), std::make_move_iterator(added.begin()),
                std::make_move_iterator(added.end()));
  std::ranges::stable_sort(before, [](const ElfSymbol& a, const ElfSymbol& b) {
    return a.address != b.address ? a.address < b.address : a.bytes > b.bytes;
  });
  const auto same = [](const ElfSymbol& a, const ElfSymbol& b) { return a.address == b.address; };
  before.erase(std::unique(before.begin(), before.end(), same), before.end());
  return before;
}

}  // namespace

ObjectStore::ObjectStore(std::string directory, Parser& parser)
    : directory_(std::move(directory)), parser_(parser) {}

const ObjectStore::Original* ObjectStore::find_or_read(const MappedFile& file) {
  if (const auto found = originals_.find(file.key); found != originals_.end()) {
    return &found->second;
  }
  if (!file.fd.valid()) return nullptr;
  Result<ElfSummary> elf = parser_.read_elf_summary(file.fd.get());
  if (!elf || !still_has_its_bytes(file)) return nullptr;
  std::string name = image_name(file, *elf) + ".so";
  cached_ += elf->segments.size();
  return &originals_.emplace(file.key, Original{.name = std::move(name), .elf = std::move(*elf)})
              .first->second;
}

const ObjectStore::Original* ObjectStore::vdso() {
  if (vdso_original_) return &*vdso_original_;
  Result<UniqueFd> bytes = copy_own_vdso();
  if (!bytes) return nullptr;
  Result<ElfSummary> elf = parser_.read_elf_summary(bytes->get());
  if (!elf) return nullptr;
  vdso_ = std::move(*bytes);
  std::string name = "vdso-" + safe_file_name(kernel_release(), kReleaseBytes) + ".so";
  vdso_original_ = Original{.name = std::move(name), .elf = std::move(*elf)};
  return &*vdso_original_;
}

Result<std::uint64_t> ObjectStore::update(const std::string& name,
                                          const ProfiledObject::Image& image,
                                          SymbolBudgets& symbols) {
  const Content& content = content_of(name);
  std::vector<std::uint64_t> missing;
  for (const std::uint64_t address : image.hit_addresses) {
    const auto after =
        std::ranges::upper_bound(content.functions, address, {}, &AddressRange::start);
    const bool known = (after != content.functions.begin() && address < std::prev(after)->end) ||
                       content.nameless.contains(address);
    if (!known) missing.push_back(address);
  }
  const bool wanted = !missing.empty() && !content.full && image.fd >= 0;
  if (content.bytes == 0 || wanted) {
    if (Result<void> written = rewrite(name, image, missing, symbols); !written) {
      return written.error();
    }
  }
  return content_of(name).bytes;
}

Result<void> ObjectStore::rewrite(const std::string& name, const ProfiledObject::Image& image,
                                  const std::vector<std::uint64_t>& missing,
                                  SymbolBudgets& symbols) {
  Result<std::vector<ElfSymbol>> before = functions_of(name);
  if (!before) return before.error();
  drop_gap_symbols(*before, image.elf);
  Result<std::vector<ElfSymbol>> added = std::vector<ElfSymbol>{};
  if (image.fd >= 0) added = find_object_symbols(parser_, image, missing, symbols);
  const bool found = added && !added->empty();
  if (found) set_sizes(*added, missing);
  const std::vector<ElfSymbol> functions =
      join(std::move(*before), found ? std::move(*added) : std::vector<ElfSymbol>{});
  const std::string bytes = encode_file_image(
      {.original = image.elf, .name = plain_name(image.path), .functions = functions});
  if (content_of(name).bytes == 0 || found) {
    if (Result<void> put_there = put(name, bytes); !put_there) return put_there;
    cache(name, functions, bytes.size());
  }
  if (image.fd < 0) return {};
  // A failed look-up is repeated for the next window, a limited number of times.
  Content& content = content_of(name);
  if (!added && ++content.failures < kMaxFailures) return {};
  content.nameless.insert(missing.begin(), missing.end());
  cached_ += missing.size();
  return {};
}

Result<std::vector<ElfSymbol>> ObjectStore::functions_of(const std::string& name) {
  const UniqueFd fd = open(name);
  if (!fd.valid() && errno != ENOENT) return fail_errno("could not open " + path_of(name));
  if (!fd.valid()) return std::vector<ElfSymbol>{};
  Result<std::vector<ElfSymbol>> functions = parser_.list_elf_functions(fd.get());
  if (!functions) log::warn("object {}: {}", name, functions.error().message);
  return functions ? std::move(functions) : std::vector<ElfSymbol>{};
}

Result<void> ObjectStore::put(const std::string& name, std::string_view bytes) {
  const std::string temporary = path_of("." + name);
  const UniqueFd fd(
      ::open(temporary.c_str(), O_WRONLY | O_CREAT | O_TRUNC | O_NOFOLLOW | O_CLOEXEC, kFileMode));
  if (!fd.valid()) return fail_errno("could not create " + temporary);
  Result<void> written = write_all(fd.get(), bytes, temporary);
  if (written && ::fsync(fd.get()) != 0) written = fail_errno("could not write " + temporary);
  if (written && ::rename(temporary.c_str(), path_of(name).c_str()) != 0) {
    written = fail_errno("could not rename " + temporary);
  }
  if (!written) (void)::unlink(temporary.c_str());
  return written;
}

Result<void> ObjectStore::remove(const std::string& name) {
  contents_.erase(name);
  if (::unlink(path_of(name).c_str()) == 0 || errno == ENOENT) return {};
  return fail_errno("could not remove " + path_of(name));
}

Result<void> ObjectStore::sync() {
  const UniqueFd fd(::open(directory_.c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC));
  if (!fd.valid() || ::fsync(fd.get()) != 0) return fail_errno("could not sync " + directory_);
  return {};
}

void ObjectStore::trim() {
  if (originals_.size() < kMaxOriginals && cached_ < kMaxCached) return;
  originals_.clear();
  contents_.clear();
  cached_ = 0;
}

UniqueFd ObjectStore::open(const std::string& name) const {
  return UniqueFd(::open(path_of(name).c_str(), O_RDONLY | O_NOFOLLOW | O_CLOEXEC));
}

ObjectStore::Content& ObjectStore::content_of(const std::string& name) {
  if (const auto found = contents_.find(name); found != contents_.end()) return found->second;
  const UniqueFd fd = open(name);
  struct stat status {};
  if (!fd.valid() || ::fstat(fd.get(), &status) != 0) return contents_[name];
  const Result<std::vector<ElfSymbol>> functions = parser_.list_elf_functions(fd.get());
  if (!functions) return contents_[name];
  cache(name, *functions, static_cast<std::uint64_t>(status.st_size));
  return contents_[name];
}

void ObjectStore::cache(const std::string& name, const std::vector<ElfSymbol>& functions,
                        std::uint64_t bytes) {
  Content& content = contents_[name];
  cached_ -= content.functions.size();
  content.functions.clear();
  for (const ElfSymbol& function : functions) {
    if (is_gap_name(function.name)) continue;
    content.functions.push_back({function.address, function.address + function.bytes});
  }
  content.bytes = bytes;
  content.full = bytes > kMaxImageBytes;
  cached_ += content.functions.size();
}

}  // namespace profd
