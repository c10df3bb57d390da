// The files behind a session's user frames: which are named by their path, and which need an image
// beside the profiles (formats/elf/image.h) because pprof would not find them there.
//
// A path is used when the file that profd sees at it is the one that ran and both pprofs can parse
// it. Others (deleted, replaced, of another mount namespace, a path with blanks) get an image of
// their hit functions in objects/, one for each file and shared by the session's profiles. What is
// no ELF file or out of reach gets a bracketed name, which readers skip. ELF files are read by the
// parser alone. Used on the worker.
//
// Any process can make a session write many large images, so a session's images share limits, and
// those beyond them are written without symbols.

#pragma once

#include <cstdint>
#include <map>
#include <memory>
#include <optional>
#include <set>
#include <string>
#include <string_view>
#include <vector>

#include "collectors/files/mapped_files.h"
#include "collectors/parser/parser.h"
#include "daemon/profiles/profiled_object.h"
#include "daemon/samples/process_table.h"
#include "daemon/samples/symbol_budgets.h"
#include "daemon/storage/result_writer.h"
#include "formats/base/result.h"
#include "formats/base/unique_fd.h"
#include "formats/elf/elf_file.h"

namespace profd {

// What the paths of a session's images begin with, in mapping lines.
inline constexpr std::string_view kBuildPrefix = "$build/";

class ObjectImages final : public ProfiledObjects {
 public:
  // `parser` must outlive *this.
  ObjectImages(Parser& parser, std::string kernel_release);

  ProfiledObject& find_or_add(const Mapping& mapping, bool main_executable) override;

  // Adds all images, in the order of their names, each encoded when its turn comes. Those with
  // symbols are at most `bytes` together. Logs how many got none.
  [[nodiscard]] Result<void> write(ResultWriter& result, std::uint64_t bytes,
                                   SymbolBudgets& symbols) const;

 private:
  ProfiledObject& named(const std::string& line_path);
  ProfiledObject& vdso();
  ProfiledObject& image_of(const Mapping& mapping);
  [[nodiscard]] Result<std::string> encode(const ProfiledObject::Image& image,
                                           SymbolBudgets& symbols) const;

  Parser& parser_;
  std::string kernel_release_;
  UniqueFd vdso_;  // a memfd with the bytes of our own
  std::map<std::string, ProfiledObject> by_line_path_;
  std::map<FileKey, ProfiledObject*> images_;
  std::map<FileKey, bool> at_its_path_;
  std::vector<std::shared_ptr<const MappedFile>> files_;  // keeps the images' fds open
};

}  // namespace profd
