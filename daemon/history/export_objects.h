// Makes the images of an export: for each object in the store of continuous mode that its profiles
// name, an image with only the functions that they hit.
//
// The objects are not copied completely, since the caller may not see what other users' processes
// hit. An object is pinned, by a hard link in a temporary directory, as soon as a window needs it,
// so that it can be read even if the window is evicted meanwhile. Only the parser reads ELF files.
// Used on the worker.

#pragma once

#include <cstdint>
#include <map>
#include <set>
#include <string>
#include <utility>

#include "collectors/parser/parser.h"
#include "daemon/storage/result_writer.h"
#include "formats/base/result.h"
#include "formats/profile/profile.h"

namespace profd {

class ExportObjects {
 public:
  // `pins` gets the links, and is never committed. It must be in the file system of `objects_dir`.
  ExportObjects(std::string objects_dir, ResultWriter pins)
      : objects_dir_(std::move(objects_dir)), pins_(std::move(pins)) {}

  // An object that does not exist any more gets no image.
  void pin(const std::string& name);

  // Makes the mappings of a profile name the images that write_next() writes, and collects the hit
  // addresses.
  void adopt(Profile& profile);

  // Writes the image of one more object. False: there was none left. The images with symbols take
  // at most `max_bytes` together.
  [[nodiscard]] Result<bool> write_next(ResultWriter& result, Parser& parser,
                                        std::uint64_t max_bytes);

 private:
  struct Object {
    bool is_kernel = false;        // looked up by address, since its image has no file offsets
    bool is_jit = false;           // of one process in one window, so it is copied completely
    ProfileMapping line;           // the mapping line of the kernel
    std::set<std::uint64_t> hits;  // file offsets, or addresses of the kernel
  };

  void note_hits(const Profile& profile);
  [[nodiscard]] std::string name_of(const ProfileMapping& mapping) const;
  [[nodiscard]] Object* object_of(const ProfileMapping& mapping);
  [[nodiscard]] std::string line_path_of(const ProfileMapping& mapping);
  [[nodiscard]] Result<std::string> encode(const std::string& name, const Object& object,
                                           Parser& parser, std::uint64_t room_bytes);

  std::string objects_dir_;
  ResultWriter pins_;
  std::set<std::string> pinned_;
  std::map<std::string, Object> objects_;  // not yet written
  bool has_hidden_kernel_ = false;
  std::uint64_t bytes_ = 0;  // of the images that are written
  SymbolBudget symbols_;
};

}  // namespace profd
