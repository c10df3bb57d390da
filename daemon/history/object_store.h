// The images of all that windows hit: STATE/objects, one for each build id, shared by all windows.
//
// An image holds the functions that any window hit so far; a window that hits others makes it anew
// with both (temporary file, fsync, rename). What each image has is remembered, so that a window
// with nothing new parses nothing; after a restart it is read back from the image. Memory and
// images are bounded, since anyone can run large files.
//
// Images are shared by name (image_name): nobody's file gets into that of root's, or another's.
// On the window worker; ELF files are read by the parser alone.

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
#include "daemon/profiles/profiled_object.h"
#include "daemon/samples/symbol_budgets.h"
#include "formats/base/result.h"
#include "formats/base/unique_fd.h"
#include "formats/elf/elf_file.h"

namespace profd {

class ObjectStore {
 public:
  // `directory` exists and is the daemon's own; `parser` must outlive *this.
  ObjectStore(std::string directory, Parser& parser);

  struct Original {
    std::string name;  // of its image
    ElfSummary elf;
  };

  // What a file is called. Null: no ELF file, out of reach, or no longer the bytes that ran. Valid
  // until trim().
  const Original* find_or_read(const MappedFile& file);

  // The vdso's, and a descriptor of its bytes.
  const Original* vdso();
  [[nodiscard]] int vdso_fd() const { return vdso_.get(); }

  // Sees to it that an image has the functions at the addresses that were hit, as far as they can
  // be had. Returns its bytes.
  Result<std::uint64_t> update(const std::string& name, const ProfiledObject::Image& image,
                               SymbolBudgets& symbols);

  // All functions of an image that is there, with the marks between them (elf_image.h); none where
  // there is no such image, or a damaged one.
  [[nodiscard]] Result<std::vector<ElfSymbol>> functions_of(const std::string& name);

  // A whole file, in place of what was there.
  Result<void> put(const std::string& name, std::string_view bytes);

  Result<void> remove(const std::string& name);

  // Makes renames durable.
  Result<void> sync();

  // Forgets what is remembered where it is too much; it is read again when it is needed.
  void trim();

  [[nodiscard]] std::string path_of(const std::string& name) const {
    return directory_ + "/" + name;
  }

 private:
  struct Range {
    std::uint64_t start = 0;
    std::uint64_t end = 0;
  };
  // What is known of an image.
  struct Content {
    std::vector<Range> functions;      // sorted
    std::set<std::uint64_t> nameless;  // addresses in no function of a known size
    std::uint64_t bytes = 0;           // 0: there is no file yet
    bool full = false;                 // takes no more
    int failures = 0;                  // of looking for symbols
  };

  [[nodiscard]] UniqueFd open(const std::string& name) const;
  Content& content_of(const std::string& name);
  Result<void> rewrite(const std::string& name, const ProfiledObject::Image& image,
                       const std::vector<std::uint64_t>& missing, SymbolBudgets& symbols);
  void remember(const std::string& name, const std::vector<ElfSymbol>& functions,
                std::uint64_t bytes);

  std::string directory_;
  Parser& parser_;
  UniqueFd vdso_;  // a memfd with the bytes of our own
  std::optional<Original> vdso_original_;
  std::map<FileKey, Original> originals_;
  std::map<std::string, Content> contents_;
  std::size_t remembered_ = 0;  // ranges, addresses and segments
};

}  // namespace profd
