// The shared objects of continuous mode, made part of an export: for each object that its profiles
// name, an image of just the functions that they hit.
//
// The caller may not see what others hit, so nothing is copied whole. An object is pinned (a hard
// link in a directory of the export's own) as soon as a window needs it, so that it stays though
// the window is evicted meanwhile. Images are ELF files, which the parser alone reads. Used on the
// worker.

#pragma once

#include <cstdint>
#include <map>
#include <set>
#include <string>
#include <vector>

#include "collectors/parser/parser.h"
#include "daemon/storage/result_writer.h"
#include "formats/base/result.h"
#include "formats/base/unique_fd.h"
#include "formats/profile/profile.h"

namespace profd {

class ExportObjects {
 public:
  // `results_dir` gets the directory of links; a name with a leading dot, which the next start
  // removes if nobody else does. It must lie in the file system of `objects_dir`.
  static Result<ExportObjects> create(const std::string& objects_dir,
                                      const std::string& results_dir);

  ExportObjects(ExportObjects&&) noexcept = default;
  ExportObjects& operator=(ExportObjects&&) = delete;
  ~ExportObjects();

  // One that is gone already stays without an image.
  void pin(const std::string& name);

  // Makes the mappings of a profile name what write_next() writes, and notes what is hit.
  void adopt(Profile& profile);

  // Writes the image of one more object; false: there was none left. Those with symbols are at most
  // `max_bytes` together.
  [[nodiscard]] Result<bool> write_next(ResultWriter& result, Parser& parser,
                                        std::uint64_t max_bytes);

 private:
  struct Object {
    bool is_kernel = false;        // looked up by address: its image has no file's offsets
    bool is_jit = false;           // one process's in one window: nobody else's hits are in it
    ProfileMapping line;           // of the kernel
    std::set<std::uint64_t> hits;  // of bytes in the file, else addresses
  };

  ExportObjects(std::string objects_dir, UniqueFd results, UniqueFd pins, std::string name)
      : objects_dir_(std::move(objects_dir)),
        results_(std::move(results)),
        pins_(std::move(pins)),
        name_(std::move(name)) {}

  void note_hits(const Profile& profile);
  [[nodiscard]] Object* object_of(const ProfileMapping& mapping);
  [[nodiscard]] std::string line_path_of(const ProfileMapping& mapping);
  [[nodiscard]] Result<std::string> encode(const std::string& name, const Object& object,
                                           Parser& parser, std::uint64_t room_bytes);

  std::string objects_dir_;
  UniqueFd results_;
  UniqueFd pins_;
  std::string name_;  // of the directory of links, below results_
  std::set<std::string> pinned_;
  std::map<std::string, Object> objects_;  // yet to be written
  bool has_hidden_kernel_ = false;
  std::uint64_t bytes_ = 0;  // written
  SymbolBudget symbols_;
};

}  // namespace profd
