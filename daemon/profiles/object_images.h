// The files behind a session's user frames. A file is named by its path, or needs an image beside
// the profiles (formats/elf/image.h) because pprof would not find it at its path.
//
// The path is used if it leads profd to the file that ran and both pprofs can parse it. Other files
// (deleted, replaced, of another mount namespace, with blanks in the path) get an image of their
// hit functions in objects/, one for each file, which the session's profiles share. So does a file
// with an interpreter whose loop compilers have divided: the second part has no symbol, and readers
// would take the nearest one. Mappings without a readable ELF file get a bracketed name, which
// readers skip. Only the parser reads ELF files. Used on the worker.
//
// Any process can make a session write many large images, so a session's images share limits.
// Images beyond the limits are written without symbols.

#pragma once

#include <cstdint>
#include <map>
#include <memory>
#include <string>
#include <vector>

#include "collectors/files/mapped_files.h"
#include "collectors/parser/parser.h"
#include "daemon/names/name_cache.h"
#include "daemon/names/symbol_budgets.h"
#include "daemon/profiles/profiled_object.h"
#include "daemon/samples/process_table.h"
#include "daemon/storage/result_writer.h"
#include "formats/base/result.h"
#include "formats/base/unique_fd.h"
#include "formats/elf/elf_file.h"
#include "formats/interpreters/runtime.h"

namespace profd {

// The bytes that the images with symbols of one result take at most. An unprivileged caller gets
// less room on the disk.
[[nodiscard]] constexpr std::uint64_t max_images_bytes(bool privileged) {
  return std::uint64_t{privileged ? 64U : 16U} << 20;
}

class ObjectImages {
 public:
  // `parser` and `interpreters` (SessionSnapshot::interpreters; null: none) must outlive *this.
  ObjectImages(Parser& parser, std::string kernel_release,
               const std::map<FileKey, profd_runtime>* interpreters = nullptr);
  ObjectImages(const ObjectImages&) = delete;
  ObjectImages& operator=(const ObjectImages&) = delete;

  // The object of a mapping of a process of this user. Valid as long as *this.
  ProfiledObject& find_or_add(const ProcessMapping& mapping, bool main_executable,
                              std::uint32_t uid);

  // Adds all images, sorted by name, with the lines and inlined functions that `names` knows. The
  // images with symbols take at most `max_bytes` together. Logs how many images were written
  // without symbols.
  [[nodiscard]] Result<void> write(ResultWriter& result, std::uint64_t max_bytes,
                                   SymbolBudgets& symbols, NameCache& names) const;

 private:
  // Both return the object with that line path, and add it if there is none.
  ProfiledObject& named(const std::string& line_path);
  ProfiledObject& with_image(const std::string& line_path, ProfiledObject::Image&& image);
  ProfiledObject& vdso();
  [[nodiscard]] const profd_runtime* interpreter_in(const FileKey& file) const;
  ProfiledObject& image_of(const ProcessMapping& mapping);
  [[nodiscard]] Result<std::string> encode(const ProfiledObject::Image& image,
                                           std::uint64_t max_bytes, SymbolBudgets& symbols,
                                           NameCache& names) const;

  Parser& parser_;
  std::string kernel_release_;
  const std::map<FileKey, profd_runtime>* interpreters_;
  UniqueFd vdso_;  // a memfd with the bytes of the daemon's own vdso
  std::map<std::string, ProfiledObject> by_line_path_;
  std::vector<std::shared_ptr<const MappedFile>> files_;  // the originals of images, kept open
  std::map<std::pair<FileKey, std::string>, ProfiledObject*> images_;  // by shown path
  std::map<std::pair<FileKey, std::string>, bool> at_its_path_;
};

}  // namespace profd
