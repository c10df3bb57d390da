// The store of the images of files that windows hit, STATE/objects. All windows share it.
//
// An image holds the functions that any window has hit. If a window hits others, the image is
// replaced by one with both (temporary file, fsync, rename). The content of each image is cached,
// so that a window without new functions parses nothing; after a restart it is read from the image.
// Cache and images are limited, since any user can run large files.
//
// Files with the same image_name() share an image. A file of one user never shares an image with a
// file of root or of another user. On the window worker. Only the parser reads ELF files.

#pragma once

#include <cstddef>
#include <cstdint>
#include <map>
#include <optional>
#include <set>
#include <string>
#include <string_view>
#include <vector>

#include "collectors/files/mapped_files.h"
#include "collectors/parser/parser.h"
#include "daemon/names/symbol_budgets.h"
#include "daemon/profiles/profiled_object.h"
#include "formats/base/address_range.h"
#include "formats/base/result.h"
#include "formats/base/unique_fd.h"
#include "formats/elf/elf_file.h"

namespace profd {

class ObjectStore {
 public:
  // `directory` exists and is the daemon's own; `parser` must outlive *this.
  ObjectStore(std::string directory, Parser& parser);

  struct Original {
    std::string name;  // of the image
    ElfSummary elf;
  };

  // The name and headers of a file, valid until trim(). Null: the file is not an ELF file, can't be
  // read, or has changed since it ran.
  const Original* find_or_read(const MappedFile& file);

  // The same for the vdso, and a descriptor of its bytes.
  const Original* vdso();
  [[nodiscard]] int vdso_fd() const { return vdso_.get(); }

  // Adds the functions at the hit addresses to an image, if their symbols can be read. Returns the
  // size of the image.
  Result<std::uint64_t> update(const std::string& name, const ProfiledObject::Image& image,
                               SymbolBudgets& symbols);

  // The functions of an image, with the symbols of the gaps between them (formats/elf/image.h).
  // Empty: the image does not exist or is malformed.
  [[nodiscard]] Result<std::vector<ElfSymbol>> functions_of(const std::string& name);

  // Writes or replaces a file.
  Result<void> put(const std::string& name, std::string_view bytes);

  Result<void> remove(const std::string& name);

  // Makes renames durable.
  Result<void> sync();

  // Clears the cache if it is too large.
  void trim();

  [[nodiscard]] std::string path_of(const std::string& name) const {
    return directory_ + "/" + name;
  }

 private:
  // The cached content of an image.
  struct Content {
    std::vector<AddressRange> functions;  // sorted
    std::set<std::uint64_t> nameless;     // addresses that are in no function of a known size
    std::uint64_t bytes = 0;              // 0: there is no file yet
    bool full = false;                    // gets no more functions
    int failures = 0;                     // failed look-ups of symbols
  };

  [[nodiscard]] UniqueFd open(const std::string& name) const;
  Content& content_of(const std::string& name);
  Result<void> rewrite(const std::string& name, const ProfiledObject::Image& image,
                       const std::vector<std::uint64_t>& missing, SymbolBudgets& symbols);
  void cache(const std::string& name, const std::vector<ElfSymbol>& functions, std::uint64_t bytes);

  std::string directory_;
  Parser& parser_;
  UniqueFd vdso_;  // a memfd with the bytes of the daemon's own vdso
  std::optional<Original> vdso_original_;
  std::map<FileKey, Original> originals_;
  std::map<std::string, Content> contents_;
  std::size_t cached_ = 0;  // ranges, addresses and segments
};

}  // namespace profd
